"""The plane as tasks see it: what can't be said now, because the plane is away, is said again until it was heard."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO, TypeVar

from gpulayer.errors import GPULayerError, HomeBusy, PlaneBusy, PlaneUnreachable, WorkerRemoved
from gpulayer.plane import Plane
from gpulayer.spec.files import Blob
from gpulayer.spec.logs import LogLine
from gpulayer.spec.reports import TaskReport

T = TypeVar("T")
_log = logging.getLogger(__name__)
_AWAY = (PlaneUnreachable, PlaneBusy, HomeBusy)
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 2.0
_ODD_S = 90.0
"""How long an error that is none of ours is taken for trouble on the way."""


class PatientPlane:
    """What tasks ask of a plane, each call made again for as long as the plane is away, or until ``give_up``.

    Errors of our own tree that are answers come out at once. That the plane is away, and is back, is logged once each.
    """

    def __init__(self, plane: Plane) -> None:
        self._lost_since: float | None = None
        self._plane = plane
        self._given_up = threading.Event()
        self._waiting = 0
        self._lock = threading.Lock()
        self.deaf = False
        """Whether the plane hears nothing more of this worker, which was removed."""

    @property
    def away(self) -> bool:
        """Whether somebody waits for the plane to come back."""
        return self._waiting > 0

    def give_up(self) -> None:
        """Wait no more: this process ends, and what is left unsaid stays in the folders of its tasks."""
        self._given_up.set()

    def missed(self, trouble: Exception) -> None:
        """Take note that the plane did not answer."""
        with self._lock:
            first, self._lost_since = self._lost_since is None, self._lost_since or time.monotonic()
        if first:
            ours = isinstance(trouble, GPULayerError)
            _log.warning("the plane does not answer, and is asked again: %s", trouble, exc_info=None if ours else trouble)

    def heard(self) -> None:
        """Take note that the plane answered."""
        with self._lock:
            since, self._lost_since = self._lost_since, None
        if since is not None:
            _log.warning("the plane answers again, after %.0f s", time.monotonic() - since)

    def report(self, report: TaskReport) -> None:
        self._ask(lambda: self._plane.report(report))  # type: ignore[arg-type]

    def append_lines(self, job_id: str, lines: Sequence[LogLine]) -> None:
        self._ask(lambda: self._plane.append_lines(job_id, lines))

    def log_marks(self, job_id: str, attempt: int, node_rank: int) -> dict[str, int]:
        return self._ask(lambda: self._plane.log_marks(job_id, attempt, node_rank))

    def put_blob(self, source: Path | bytes) -> Blob:
        return self._ask(lambda: self._plane.put_blob(source))

    def open_blob(self, sha256: str) -> BinaryIO:
        return self._ask(lambda: self._plane.open_blob(sha256))

    def secrets_of(self, job_id: str) -> dict[str, str]:
        return self._ask(lambda: self._plane.secrets_of(job_id))

    def fetch_blob(self, sha256: str, to: Path) -> None:
        self._ask(lambda: self._plane.fetch_blob(sha256, to))

    def _ask(self, call: Callable[[], T]) -> T:
        try:
            return self._ask_until_heard(call)
        except WorkerRemoved:
            self.deaf = True
            raise

    def _ask_until_heard(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except Exception as trouble:
            if _is_answer(trouble):
                raise
            first = trouble
        self.missed(first)
        with self._lock:
            self._waiting += 1
        try:
            return self._ask_again(call, first)
        finally:
            with self._lock:
                self._waiting -= 1

    def _ask_again(self, call: Callable[[], T], trouble: Exception) -> T:
        since, pause = time.monotonic(), _FIRST_PAUSE_S
        while True:
            odd = not isinstance(trouble, GPULayerError) and time.monotonic() - since > _ODD_S
            if odd or self._given_up.wait(_pause(trouble, pause)):
                raise trouble
            pause = min(2 * pause, _LONGEST_PAUSE_S)
            try:
                answer = call()
            except Exception as again:
                if _is_answer(again):
                    raise
                trouble = again
            else:
                self.heard()
                return answer


def _is_answer(trouble: Exception) -> bool:
    """Say whether asking again would change nothing: refused, or (``final``) closed or not trusted."""
    if isinstance(trouble, _AWAY):
        return bool(trouble.facts.get("final"))
    return isinstance(trouble, GPULayerError)


def _pause(trouble: Exception, pause_s: float) -> float:
    asked = trouble.facts.get("retry_after_s") if isinstance(trouble, GPULayerError) else None
    return max(pause_s, float(asked or 0.0))
