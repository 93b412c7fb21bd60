"""A job as programs hold it: how it stands, what it prints, what it left, what it returned."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from gpulayer.client import raising
from gpulayer.errors import ArtifactNotFound
from gpulayer.plane import Plane
from gpulayer.spec.events import Event
from gpulayer.spec.files import Artifact
from gpulayer.spec.job import FunctionJob
from gpulayer.spec.logs import LogLine
from gpulayer.spec.news import Cursor
from gpulayer.spec.records import Explanation, JobRecord
from gpulayer.spec.states import JobState, Phase, Reason

RESULT = "node0/result.json"
LOOK_S = 5.0
"""How long one question to the plane may wait for news: a Ctrl-C is heard between two."""


@dataclass(frozen=True)
class Status:
    """How a job stands; ``sentence`` is for people, ``why`` says for what it waits."""

    state: JobState
    phase: Phase | None
    reason: Reason | None
    sentence: str
    why: tuple[str, ...]

    @property
    def ended(self) -> bool:
        return self.state.terminal


class Job:
    """A job of a plane. Its methods ask the plane; any process that reaches the plane may hold the same job by its id."""

    def __init__(self, plane: Plane, record: JobRecord) -> None:
        self._plane = plane
        self._record = record

    def __repr__(self) -> str:
        return f"<Job {self.id} {self._record.state}>"

    @property
    def id(self) -> str:
        return self._record.id

    @property
    def record(self) -> JobRecord:
        """All that the plane knows of it now."""
        self._record = self._plane.job(self.id)
        return self._record

    @property
    def status(self) -> Status:
        """How it stands now."""
        now = self.record
        return Status(now.state, now.phase, now.reason, now.sentence, now.why)

    def wait(self, timeout: float | None = None) -> Job:
        """Wait until it has ended, well or not; raises ``TimeoutError`` after ``timeout`` seconds, and the job goes on."""
        until = None if timeout is None else time.monotonic() + timeout
        cursor = Cursor(event=self.record.events)
        while not self._record.state.terminal:
            left = LOOK_S if until is None else min(LOOK_S, until - time.monotonic())
            if left <= 0:
                raise TimeoutError(f"{self.id} has not ended in {timeout:g} s: it is {self._record.state}.")
            news = self._plane.news(self.id, cursor, timeout_s=left, lines=False)
            self._record, cursor = news.job, news.cursor
        return self

    def result(self, timeout: float | None = None) -> Any:
        """Wait, and return what a function returned; None for other kinds of job.

        Raises what the job raised, as its own class with the remote traceback as a note (``RemoteError`` where that class
        isn't here), or a ``JobFailed`` that says how it ended.
        """
        if self.wait(timeout)._record.state is not JobState.SUCCEEDED:
            raise raising.of_job(self._record)
        if not isinstance(self._record.spec, FunctionJob):
            return None
        with self.open(RESULT) as opened:
            return json.load(opened)

    def logs(self, *, follow: bool = False, rank: int | None = None) -> Iterator[LogLine]:
        """Give its lines in the order in which they arrived; with ``follow`` until it has ended, as they come."""
        if not follow:
            yield from self._plane.lines(self.id, rank=rank)
            return
        cursor, waits = Cursor(), True
        while True:
            news = self._plane.news(self.id, cursor, timeout_s=LOOK_S if waits else 0.0)
            cursor, waits = news.cursor, not news.job.state.terminal
            yield from (line for line in news.lines if rank in (None, line.rank))
            if not news.lines and not waits:
                return

    def events(self, *, follow: bool = False) -> Iterator[Event]:
        """Give what happened to it, in order; with ``follow`` until it has ended, as it happens."""
        cursor, waits = Cursor(), follow
        while True:
            news = self._plane.news(self.id, cursor, timeout_s=LOOK_S if waits else 0.0, lines=False)
            cursor, waits = news.cursor, follow and not news.job.state.terminal
            yield from news.events
            if not news.events and not waits:
                return

    @property
    def artifacts(self) -> list[Artifact]:
        """The files that it left so far, as ``node<r>/<path>``, of its latest attempt."""
        return self._plane.artifacts(self.id)

    def open(self, path: str) -> BinaryIO:
        """Open one of its files for reading; raises ``ArtifactNotFound``."""
        return self._plane.open_blob(self._artifact(path).blob.sha256)

    def download(self, path: str, to: str | Path) -> Path:
        """Write one of its files to a local path, and return that; a folder gets it under its own name."""
        target = Path(to)
        target = target / path.rpartition("/")[2] if target.is_dir() else target
        self._plane.fetch_blob(self._artifact(path).blob.sha256, target)
        return target

    def _artifact(self, path: str) -> Artifact:
        for each in self.artifacts:
            if each.path == path:
                return each
        raise ArtifactNotFound(f"{self.id} left no {path}.", job_id=self.id, path=path)

    def cancel(self, *, kill: bool = False) -> None:
        """Ask that it ends, with the grace that it was promised unless ``kill``; an ended one stays as it is."""
        self._record = self._plane.cancel(self.id, kill=kill)

    def explain(self) -> Explanation:
        """Say why it waits: each worker's reasons, and the nearest change that would let it run."""
        return self._plane.explain(self.id)
