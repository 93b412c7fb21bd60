"""``gpulayer jobs``: list, show, follow, cancel, wait for, explain and remove jobs."""

from __future__ import annotations

import sys
import time

import click

from gpulayer.cli.completing import job_ids
from gpulayer.cli.job_facts import COLUMNS, all_facts, job_facts, shown
from gpulayer.cli.lines import WorkersOf, follow_lines, line_json
from gpulayer.cli.opened import opened
from gpulayer.cli.outcome import FAILED
from gpulayer.cli.output import Form, Listing, print_json, print_one, size, with_forms, with_watch
from gpulayer.logs.harmless import harmless
from gpulayer.logs.render import Renderer
from gpulayer.plane import Plane
from gpulayer.spec.news import Cursor
from gpulayer.spec.records import Explanation, JobRecord
from gpulayer.spec.states import JobState

LOOK_S = 5.0
"""How long one question to the plane may wait for news."""


@click.group()
def command() -> None:
    """List, show, follow, cancel and remove jobs. An ID may be cut to any unique prefix."""


@command.command()
@click.option("-n", "--limit", default=30, show_default=True, help="How many of the newest jobs to list.")
@with_watch
@with_forms()
def ls(limit: int, watch: bool, form: Form) -> None:
    """List the newest jobs, newest first."""
    listing = Listing(job_facts, COLUMNS, nothing="No jobs yet.")
    with opened() as plane:
        if watch:
            listing.watch(lambda: plane.jobs(limit=limit), form)
        else:
            listing.print(plane.jobs(limit=limit), form)


@command.command()
@click.argument("job_id", metavar="ID", shell_complete=job_ids)
@with_forms(quiet=False)
def show(job_id: str, form: Form) -> None:
    """Show one job with its tasks and calls."""
    with opened() as plane:
        job = plane.job(job_id)
        takes = plane.size(job.id)
    facts = all_facts(job) | {"disk": takes.model_dump()}
    print_one(facts, form, shown=shown(job) | {"disk": f"{size(takes.files)} of files, {size(takes.lines)} of lines"})


@command.command()
@click.argument("job_id", metavar="ID", shell_complete=job_ids)
@click.option("-f", "--follow", is_flag=True, help="Go on until the job ends.")
@click.option("--rank", type=int, help="Only what this global rank printed.")
@click.option("--tail", type=click.IntRange(min=0), help="Only the last lines that are there now.")
@click.option("--workers", "with_workers", is_flag=True, help="Tag each line with its worker as well: [rank3@box-2].")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
def logs(job_id: str, follow: bool, rank: int | None, tail: int | None, with_workers: bool, as_json: bool) -> None:
    """Print what a job's ranks printed, as [rank3] ..."""
    with opened() as plane:
        job = plane.job(job_id)
        _check_rank(job, rank)
        lines = follow_lines(plane, job.id, rank=rank, tail=tail) if follow else plane.lines(job.id, rank=rank, tail=tail)
        workers = WorkersOf(plane, job)
        renderer = Renderer.on(sys.stdout, workers=workers if with_workers else None)
        for line in lines:
            click.echo(line_json(line, workers) if as_json else renderer.line(line))


def _check_rank(job: JobRecord, rank: int | None) -> None:
    workers, procs = job.shape
    if procs == "auto":
        return
    last = workers * procs - 1
    if rank is not None and not 0 <= rank <= last:
        ranks = "only rank 0" if last == 0 else f"ranks 0 to {last}"
        raise click.BadParameter(f"{job.id} has {ranks}, not {rank}.", param_hint="--rank")


@command.command()
@click.argument("job_id", metavar="ID", shell_complete=job_ids)
@click.option("--kill", is_flag=True, help="Don't wait for the processes to end by themselves.")
@with_forms(quiet=False)
def cancel(job_id: str, kill: bool, form: Form) -> None:
    """Ask that a job ends, and return at once; an ended one stays as it is."""
    with opened() as plane:
        job = plane.cancel(job_id, kill=kill)
    print_one(job_facts(job), form, shown=shown(job))


@command.command()
@click.argument("job_id", metavar="ID", shell_complete=job_ids)
@click.option("--timeout", "timeout_s", type=float, help="Seconds to wait at most.")
@with_forms(quiet=False)
def wait(job_id: str, timeout_s: float | None, form: Form) -> None:
    """Wait until a job has ended. The exit code is 0 if it succeeded, 1 if it didn't or the time was up."""
    with opened() as plane:
        job = until_ended(plane, job_id, timeout_s)
    print_one(all_facts(job), form, shown=shown(job))
    if job.state is not JobState.SUCCEEDED:
        raise click.exceptions.Exit(FAILED)


def until_ended(plane: Plane, job_id: str, timeout_s: float | None = None) -> JobRecord:
    """Return the job once it has ended, or as it is when the time is up."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    job = plane.job(job_id)
    cursor = Cursor(event=job.events)
    while not job.state.terminal and (deadline is None or time.monotonic() < deadline):
        left = LOOK_S if deadline is None else min(LOOK_S, max(0.0, deadline - time.monotonic()))
        news = plane.news(job.id, cursor, timeout_s=left, lines=False)
        job, cursor = news.job, news.cursor
    return job


@command.command()
@click.argument("job_id", metavar="ID", shell_complete=job_ids)
@with_forms(quiet=False)
def explain(job_id: str, form: Form) -> None:
    """Say why a job waits: every worker's reasons, and the nearest change that would let it run."""
    with opened() as plane:
        answer = plane.explain(job_id)
    print_explanation(answer, form)


def print_explanation(answer: Explanation, form: Form) -> None:
    """Print the scheduler's answer about one job."""
    if form is Form.JSON:
        print_json(answer.model_dump(mode="json"))
        return
    click.echo(harmless(answer.sentence))
    for verdict in answer.verdicts:
        words = "; ".join(verdict.sentences) or "could take it now"
        click.echo(harmless(f"  {verdict.worker_name or verdict.worker_id}: {words}"))
    if answer.nearest:
        click.echo(harmless(answer.nearest))


@command.command()
@click.argument("job_id", metavar="ID", shell_complete=job_ids)
@click.option("--from", "start", help="last, best, the path of a checkpoint of the job, or start. [default: last, if any]")
@click.option("--detach", is_flag=True, help="Print the new job's id and leave it to run.")
def resubmit(job_id: str, start: str | None, detach: bool) -> None:
    """Submit an ended job again, and follow it.

    A job of a Trainer makes its last call, from a checkpoint of the one before; `gpulayer.attach` brings it home.
    """
    from gpulayer.cli import submission  # which needs this module

    submission.resubmit(job_id, start, submission.Stay(detach=detach))


@command.command()
@click.argument("job_ids", metavar="ID...", nargs=-1, required=True, shell_complete=job_ids)
def rm(job_ids: tuple[str, ...]) -> None:
    """Forget ended jobs, with their logs and files."""
    with opened() as plane:
        for job_id in job_ids:
            job = plane.job(job_id)
            plane.remove(job.id)
            click.echo(job.id)
