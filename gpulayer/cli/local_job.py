"""Runs a job on local workers of this process, from its source folder to its exit code."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from gpulayer import settings
from gpulayer.artifacts import bundle
from gpulayer.cli.following import follow_to_end, say
from gpulayer.cli.opened import opened
from gpulayer.cli.outcome import FAILED, INTERRUPTED
from gpulayer.client import source
from gpulayer.client.local_workers import LocalWorkers
from gpulayer.plane import Plane
from gpulayer.spec.job import CommandJob, DistributedJob, shape
from gpulayer.spec.states import JobState

AnyJob = CommandJob | DistributedJob
CLOSE_S = 10.0


@dataclass(frozen=True)
class Place:
    """The folder that travels, and the one below it in which the job starts; both absolute."""

    root: Path
    cwd: Path

    def fields(self, stored: source.StoredSource) -> dict[str, Any]:
        """Return what a job spec says of its source."""
        cwd = self.cwd.relative_to(self.root).as_posix()
        return {"source": stored.sha256, "left_out": stored.left_out, "source_root": str(self.root), "cwd": cwd}


def place_of(near: Path, source_dir: str | None) -> Place:
    """Choose the folder: the one named, else the project around ``near``.

    The job starts where the person stands, if that travels.
    """
    root, cwd = bundle.find_root(near, source_dir), Path.cwd()
    return Place(root, cwd if cwd.is_relative_to(root) else root)


def run_here(place: Place, make: Callable[[dict[str, Any]], AnyJob], *, always: tuple[Path, ...] = ()) -> None:
    """Bundle, submit, follow; then leave with the job's exit code. ``make`` adds the fields of the source to the rest."""
    make({})  # what can't be asked for is refused before anything is done
    home = settings.read().home
    with opened() as plane:
        workers = LocalWorkers(home, plane.process_id)
        try:
            job = make(place.fields(source.store(plane, place.root, home=home, always=always)))
            workers.ensure(shape(job)[0])
            workers.wait(plane)
            _run(plane, job)
        finally:
            workers.close(CLOSE_S)


def _run(plane: Plane, job: AnyJob) -> None:
    submitted = plane.submit(job)
    ended, interrupted = follow_to_end(plane, submitted.id)
    count = len(plane.artifacts(ended.id))
    if count:
        say(f"{count} file{'s' * (count > 1)} left: gpulayer artifacts ls {ended.id}")
    if ended.state is not JobState.SUCCEEDED:
        raise click.exceptions.Exit(INTERRUPTED if interrupted else FAILED)


def absolute(path: str) -> Path:
    """Return an absolute path without resolving links."""
    return Path(os.path.abspath(path))
