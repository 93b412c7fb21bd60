"""``gpulayer workers``: list, show, drain and remove workers."""

from __future__ import annotations

from collections.abc import Callable

import click

from gpulayer import settings
from gpulayer.cli.completing import worker_ids
from gpulayer.cli.opened import opened
from gpulayer.cli.output import Form, Listing, age, print_one, with_forms, with_watch
from gpulayer.errors import AmbiguousId, WorkerNotFound
from gpulayer.spec.records import WorkerRecord


@click.group()
def command() -> None:
    """List, drain and remove workers. An ID may be cut to any unique prefix, or be a worker's name."""


def worker_facts(worker: WorkerRecord) -> dict[str, object]:
    """Return the object that ``workers ls --json`` prints of each worker."""
    info = worker.info
    return {
        "id": info.id,
        "name": info.name,
        "state": worker.state,
        "origin": info.origin,
        "owner": info.owner,
        "labels": info.labels,
        "slots": info.slots,
        "address": info.capabilities.advertise_address,
        "machine": info.capabilities.hostname,
        "cpus": info.capabilities.cpus,
        "memory_gb": info.capabilities.memory_gb,
        "devices": [device.model_dump(mode="json") for device in info.capabilities.devices],
        "busy": [job_id for job_id, _, _ in worker.busy],
        "heard_at": worker.heard_at,
    }


COLUMNS: dict[str, Callable[[WorkerRecord], object]] = {
    "ID": lambda worker: worker.info.id,
    "NAME": lambda worker: worker.info.name,
    "STATE": lambda worker: worker.state,
    "ORIGIN": lambda worker: worker.info.origin,
    "DEVICES": lambda worker: len(worker.info.capabilities.devices) or None,
    "HEARD": lambda worker: age(worker.heard_at),
    "AT": lambda worker: ", ".join(job_id for job_id, _, _ in worker.busy),
}


@command.command()
@with_watch
@with_forms()
def ls(watch: bool, form: Form) -> None:
    """List the workers of this plane."""
    local = "No workers now: local ones come with a job and leave with it; `gpulayer up` has some stay."
    nothing = local if settings.read().url is None else "No workers now: `gpulayer worker start` with a join token adds one."
    listing = Listing(worker_facts, COLUMNS, nothing=nothing)
    with opened() as plane:
        if watch:
            listing.watch(plane.workers, form)
        else:
            listing.print(plane.workers(), form)


@command.command()
@click.argument("worker_id", metavar="ID", shell_complete=worker_ids)
@with_forms(quiet=False)
def show(worker_id: str, form: Form) -> None:
    """Show what one worker can do and what it is at."""
    with opened() as plane:
        worker = the_one(plane.workers(), worker_id)
    facts = worker_facts(worker) | {"capabilities": worker.info.capabilities.model_dump(mode="json")}
    versions = [f"{name} {version}" for name, version in sorted(worker.info.capabilities.frameworks.items())]
    devices = [f"{device.kind}{device.index} {device.name}".strip() for device in worker.info.capabilities.devices]
    seen = {
        "worker": worker.info.id,
        "name": worker.info.name,
        "state": worker.state,
        "origin": worker.info.origin,
        "labels": ", ".join(f"{key}={value}" for key, value in sorted(worker.info.labels.items())),
        "slots": worker.info.slots,
        "machine": worker.info.capabilities.hostname,
        "address": _reached_at(worker),
        "python": worker.info.capabilities.python,
        "cpus": worker.info.capabilities.cpus,
        "memory": f"{worker.info.capabilities.memory_gb:.1f} GB",
        "devices": "\n".join(devices),
        "backends": ", ".join(worker.info.capabilities.backends),
        "frameworks": "\n".join(versions),
        "at": "\n".join(f"{job_id} attempt {attempt}, node{node}" for job_id, attempt, node in worker.busy),
    }
    print_one(facts, form, shown=seen)


@command.command()
@click.argument("worker_id", metavar="ID", shell_complete=worker_ids)
def drain(worker_id: str) -> None:
    """Give a worker no further task; it ends what it is at."""
    with opened() as plane:
        worker = the_one(plane.workers(), worker_id)
        plane.drain(worker.info.id)
    click.echo(worker.info.id)


@command.command()
@click.argument("worker_id", metavar="ID", shell_complete=worker_ids)
def rm(worker_id: str) -> None:
    """Forget a worker that is gone, and free the devices that its tasks held. It can come back only by joining anew."""
    with opened() as plane:
        worker = the_one(plane.workers(), worker_id)
        plane.remove_worker(worker.info.id)
    click.echo(worker.info.id)


def _reached_at(worker: WorkerRecord) -> str:
    can = worker.info.capabilities
    return " ".join(filter(None, (can.advertise_address, can.interface and f"({can.interface})")))


def the_one(workers: list[WorkerRecord], wanted: str) -> WorkerRecord:
    """Find a worker by its name, its id, or a unique prefix of its id."""
    exact = [worker for worker in workers if wanted in (worker.info.id, worker.info.name)]
    found = exact or [worker for worker in workers if worker.info.id.startswith(wanted)]
    if not found:
        raise WorkerNotFound(f"There is no worker {wanted}.", id=wanted)
    if len(found) > 1:
        names = ", ".join(worker.info.id for worker in found[:5])
        raise AmbiguousId(f"{wanted} fits {len(found)} workers: {names}.", id=wanted)
    return found[0]
