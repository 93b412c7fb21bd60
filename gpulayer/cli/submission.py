"""Submits the job of a command where it belongs, from its source folder to its exit code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from gpulayer import settings
from gpulayer.cli import following
from gpulayer.cli.following import say
from gpulayer.cli.jobs import print_explanation
from gpulayer.cli.opened import opened
from gpulayer.cli.outcome import FAILED, INTERRUPTED
from gpulayer.cli.output import Form
from gpulayer.client import inputs, source, standing
from gpulayer.client.local_workers import LocalWorkers
from gpulayer.client.places import Place
from gpulayer.errors import NobodyStays, PlaneUnreachable
from gpulayer.plane import Plane
from gpulayer.spec.job import CommandJob, DistributedJob, FunctionJob, shape
from gpulayer.spec.records import Explanation, JobRecord
from gpulayer.spec.states import JobState

AnyJob = CommandJob | FunctionJob | DistributedJob
CLOSE_S = 10.0


@dataclass(frozen=True)
class Stay:
    """How long a command stays with its job.

    ``detach`` prints its id and leaves; ``dry_run`` asks, answers in ``form``, and submits nothing; ``verbose`` shows what
    torchrun says as well.
    """

    detach: bool = False
    dry_run: bool = False
    form: Form = Form.TABLE
    verbose: bool = False


def run(
    place: Place,
    make: Callable[[dict[str, Any]], AnyJob],
    stay: Stay,
    *,
    always: tuple[Path, ...] = (),
    result: Callable[[Plane, JobRecord], None] | None = None,
) -> None:
    """Bundle, submit, follow; then leave with the job's exit code.

    ``make`` adds the fields of the source to the rest. With ``result``, which prints what a job that succeeded answered,
    the job's own lines go to stderr.
    """
    asked = make({})  # what can't be asked for is refused before anything is done
    found = settings.read()
    with opened() as plane:
        local = asked.placement.target == "local"
        with _workers(plane, found, asked, stay):
            if stay.dry_run:
                _answer(plane.explain_spec(asked), stay.form)
                return
            stored = source.store(plane, place.root, home=found.home, always=always)
            submitted = plane.submit(inputs.carried(plane, make(place.fields(stored, local=local))))
            _stay_or_leave(plane, found, submitted, stay, result)


def resubmit(job_id: str, start: str | None, stay: Stay) -> None:
    """Submit an ended job again, follow it, and leave with its exit code."""
    from gpulayer.strategies import anew  # it needs torch

    found = settings.read()
    with opened() as plane:
        job = plane.job(job_id)
        with _workers(plane, found, job.spec, stay):
            again, checkpoint = anew.resubmit(plane, job, start)
            if checkpoint is not None:
                say(f"{again.id} goes on from {checkpoint.path} of {job.id}.")
            _stay_or_leave(plane, found, again, stay)


def _answer(answer: Explanation, form: Form) -> None:
    """Say whether a job could run; with the exit code as well when it never could."""
    print_explanation(answer, form)
    if answer.never:
        raise click.exceptions.Exit(FAILED)


@contextmanager
def _workers(plane: Plane, found: settings.Settings, job: AnyJob, stay: Stay) -> Iterator[None]:
    """Have what runs a job on a plane of this machine: workers of this process, or such as stay when it leaves."""
    if found.url is None and stay.detach:
        _require_standing(plane, shape(job)[0])
    count = shape(job)[0] if job.placement.target == "local" else 0
    if found.url is not None or stay.detach or not count:
        yield
        return
    workers = LocalWorkers(found.home, plane.process_id)
    try:
        workers.ensure(count)
        workers.wait(plane)
        yield
    finally:
        workers.close(CLOSE_S)


def _require_standing(plane: Plane, count: int) -> None:
    try:
        standing.require(plane, count)
    except NobodyStays as refusal:
        raise click.UsageError(str(refusal)) from refusal


def _stay_or_leave(
    plane: Plane,
    found: settings.Settings,
    job: JobRecord,
    stay: Stay,
    result: Callable[[Plane, JobRecord], None] | None = None,
) -> None:
    if stay.detach:
        click.echo(job.id)
        return
    _stay(plane, job, outlives=found.url is not None, result=result, verbose=stay.verbose)


def _stay(
    plane: Plane, job: JobRecord, *, outlives: bool, result: Callable[[Plane, JobRecord], None] | None, verbose: bool
) -> None:
    try:
        to_stderr = result is not None
        end = following.to_end(plane, job.id, outlives=outlives, lines_to_stderr=to_stderr, verbose=verbose)
    except PlaneUnreachable:
        say(f"{job.id} may still run: gpulayer jobs logs -f {job.id}")
        raise
    if end.left:
        say(f"{job.id} goes on: gpulayer jobs logs -f {job.id}")
        raise click.exceptions.Exit(INTERRUPTED)
    if result is not None and end.job.state is JobState.SUCCEEDED:
        result(plane, end.job)
        return
    count = len(plane.artifacts(job.id))
    if count:
        say(f"{count} file{'s' * (count > 1)} left: gpulayer artifacts ls {job.id}")
    if end.job.state is not JobState.SUCCEEDED:
        raise click.exceptions.Exit(INTERRUPTED if end.interrupted else FAILED)
