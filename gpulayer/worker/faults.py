"""What was seen to go wrong with one task."""

from __future__ import annotations

import threading
import time

from gpulayer.spec.causes import Evidence
from gpulayer.spec.reports import TaskFault
from gpulayer.worker import evidence
from gpulayer.worker.reporter import Reporter
from gpulayer.worker.wishes import Wishes

_GRACE_S = 5.0
"""Nobody kills before this has passed since the first SIGTERM, except at once."""


class Faults:
    """Evidence in the order of its arrival; each is reported at once, but for the echoes of our own signals."""

    def __init__(self, wishes: Wishes, reporter: Reporter) -> None:
        self._wishes = wishes
        self._reporter = reporter
        self._lock = threading.Lock()
        self._ending_since: float | None = None
        self.seen: list[Evidence] = []

    def ending(self) -> None:
        """Take note that the processes are told to end: what their ends look like from now on may be our doing."""
        with self._lock:
            self._ending_since = self._ending_since or time.monotonic()

    def add(self, found: Evidence) -> None:
        with self._lock:
            ended, stop = self._ending_since, self._wishes.stop
            killed = ended is not None and (time.monotonic() - ended >= _GRACE_S or bool(stop and stop.kill))
            if evidence.is_echo(found, terminated=ended is not None, killed=killed):
                return
            self.seen.append(found)
            self._ending_since = ended or time.monotonic()
        self._reporter.send(TaskFault, evidence=found)

    @property
    def tell_the_cause(self) -> bool:
        """Whether one of them is more than the noise of a peer's end."""
        return any(found.kind != "communication" for found in self.seen)
