"""Asks for a job's end in a thread of its own: a second Ctrl-C is heard while the plane is away."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from gpulayer.plane import Plane

ANSWER_S = 1.0
"""How long the plane may take to answer before a second Ctrl-C means that nobody waits for it any longer."""


class Stopping:
    """What became of the wishes to end one job; ``wake`` is called when the plane has answered one."""

    def __init__(self, plane: Plane, job_id: str, wake: Callable[[], object]) -> None:
        self._plane = plane
        self._job_id = job_id
        self._wake = wake
        self._last: tuple[float, threading.Event] | None = None
        """When it was asked for last, and whether that was answered."""
        self._trouble: BaseException | None = None

    def ask(self, *, kill: bool) -> None:
        """Ask the plane, and return at once."""
        answered = threading.Event()
        self._last = (time.monotonic(), answered)
        threading.Thread(target=self._cancel, args=(kill, answered), name="gpulayer-stopping", daemon=True).start()

    def check(self) -> None:
        """Raise what the plane refused a wish with."""
        if self._trouble is not None:
            raise self._trouble

    def is_heard(self) -> bool:
        """Say whether the plane has answered the last wish; it is given ``ANSWER_S`` for that."""
        if self._last is None:
            return True
        at, answered = self._last
        return answered.wait(max(0.0, at + ANSWER_S - time.monotonic()))

    def _cancel(self, kill: bool, answered: threading.Event) -> None:
        try:
            self._plane.cancel(self._job_id, kill=kill)
        except BaseException as trouble:  # who follows the job is told
            self._trouble = trouble
        else:
            answered.set()
        self._wake()


def unheard(job_id: str) -> str:
    """Say what a person leaves behind who no longer waits for the plane."""
    return f"the plane does not answer; the job may still run: gpulayer jobs cancel {job_id}"
