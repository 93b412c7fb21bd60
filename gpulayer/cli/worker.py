"""``gpulayer worker``: be a worker on this machine."""

from __future__ import annotations

from pathlib import Path

import click

from gpulayer import settings
from gpulayer.cli.output import size
from gpulayer.spec.workers import WorkerInfo


@click.group()
def command() -> None:
    """Make this machine a worker of a plane."""


@command.command()
@click.option("--name", help="What people see it as.  [default: the machine's name]")
@click.option("--labels", "labels", multiple=True, metavar="K=V", help="What jobs may select it by; may be given again.")
@click.option("--advertise-address", metavar="A", help="The address of this machine at which other workers reach it.")
@click.option("--slots", type=click.IntRange(min=1), default=1, show_default=True, help="Tasks it takes at a time.")
@click.option("--once", is_flag=True, help="Leave after one task.")
@click.option("--idle-timeout", type=click.FloatRange(min=0, min_open=True), metavar="S", help="Leave after S idle seconds.")
@click.option(
    "--work-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where it keeps who it is, and the folders of its tasks.  [default: GPULAYER_HOME/workers/NAME]",
)
@click.pass_context
def start(
    ctx: click.Context,
    name: str | None,
    labels: tuple[str, ...],
    advertise_address: str | None,
    slots: int,
    once: bool,
    idle_timeout: float | None,
    work_dir: Path | None,
) -> None:
    """Join the plane and take its tasks until told to end.

    The first start at a self-hosted plane needs a join token; later ones know who they are. Without a URL it serves the plane
    in GPULAYER_HOME. SIGTERM or Ctrl-C: take no more tasks and leave when those it has are done; again: stop them; once more:
    kill them. Exit codes: 0 done, 1 killed, 3 another process took its place, or it was removed.
    """
    from gpulayer.worker import service

    wish = service.Wish(
        name=name,
        labels=_pairs(labels),
        advertise_address=advertise_address,
        slots=1 if once else slots,
        once=once,
        idle_timeout_s=idle_timeout,
        work_dir=work_dir,
    )
    ctx.exit(service.serve(settings.read(), wish, announce=lambda info, place: click.echo(_joined(info, place))))


def _joined(info: WorkerInfo, place: str) -> str:
    can = info.capabilities
    has = f"{can.cpus} cpus, {size(int(can.memory_gb * 1e9))} of memory, {len(can.devices)} device(s)"
    return f"gpulayer: {info.name} ({info.id}) serves {place}: {has}, at {can.advertise_address}"


def _pairs(words: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not (key and equals):
            raise click.BadParameter(f"{word!r} is not K=V.", param_hint="--labels")
        found[key] = value
    return found
