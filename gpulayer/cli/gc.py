"""``gpulayer gc``: forgets jobs that ended long ago."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import click

from gpulayer.cli.job_facts import job_facts, stands
from gpulayer.cli.opened import opened
from gpulayer.cli.output import Form, Listing, age, size, with_forms
from gpulayer.errors import InvalidJob, JobNotFound
from gpulayer.plane import Plane
from gpulayer.spec.records import JobRecord, JobSize

KEEP = "keep"
"""The label of jobs that are never forgotten."""
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_MOST = 1000
"""How many jobs one run looks at, the oldest; and how many may be kept by their number."""


class Span(click.ParamType[float]):
    """A time such as ``30d``, ``12h``, ``90m``, in seconds."""

    name = "span"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", str(value).strip())
        if found is None:
            self.fail(f"{value!r} isn't a time: write 30d, 12h, 90m or 0s.", param, ctx)
        return float(found[1]) * _UNITS[found[2]]


@click.command()
@click.option(
    "--older-than", type=Span(), default="30d", metavar="SPAN", show_default=True, help="Jobs that ended before that."
)
@click.option("--keep", type=click.IntRange(0, _MOST), default=0, metavar="N", help="Never the N newest jobs, however old.")
@click.option("--dry-run", is_flag=True, help="Only say which, and what they take.")
@with_forms()
def command(older_than: float, keep: int, dry_run: bool, form: Form) -> None:
    """Forget jobs that ended long ago, with their logs and files, and say what they took.

    Jobs with a label named keep stay, and so do files that other jobs refer to. The files go from the disk within some minutes.
    """
    listing = Listing[tuple[JobRecord, JobSize]](
        lambda each: job_facts(each[0]) | {"disk": each[1].model_dump()},
        {
            "ID": lambda each: each[0].id,
            "NAME": lambda each: each[0].spec.name,
            "STATE": lambda each: stands(each[0]),
            "ENDED": lambda each: age(each[0].ended_at),
            "FILES": lambda each: size(each[1].files),
            "LINES": lambda each: size(each[1].lines),
        },
        nothing="No job is that old.",
    )
    with opened() as plane:
        found = list(_chosen(plane, time.time() - older_than, keep))
        for job, _ in [] if dry_run else found:
            _forget(plane, job)
    listing.print(found, form)
    if found and form is Form.TABLE:
        total = size(sum(takes.files + takes.lines for _, takes in found))
        jobs = "1 job" if len(found) == 1 else f"{len(found)} jobs"
        click.echo(f"{jobs}, at most {total}: {'would be forgotten' if dry_run else 'forgotten'}", err=True)


def _chosen(plane: Plane, before: float, keep: int) -> Iterator[tuple[JobRecord, JobSize]]:
    newest = {job.id for job in plane.jobs(limit=keep)} if keep else set()
    for job in plane.ended_jobs(before, limit=_MOST):
        if job.id not in newest and KEEP not in job.spec.labels:
            yield job, plane.size(job.id)


def _forget(plane: Plane, job: JobRecord) -> None:
    try:
        plane.remove(job.id)
    except (JobNotFound, InvalidJob):  # somebody else was first, or it is tried again just now
        return
