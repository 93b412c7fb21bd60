"""One thread that does a task's slow work in order: keeping checkpoints, storing outputs."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

from gpulayer.errors import WorkerRemoved

_log = logging.getLogger(__name__)


class Background:
    """Runs jobs one after the other. A job that raises is handed to ``on_trouble`` and the next goes on."""

    def __init__(self, name: str, on_trouble: Callable[[Exception], None]) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._on_trouble = on_trouble
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def do(self, job: Callable[[], None]) -> None:
        """Put a job behind those that wait."""
        self._jobs.put(job)

    def finish(self, timeout_s: float | None = None) -> bool:
        """Wait until all jobs are done and end; say whether they were done in time."""
        self._jobs.put(None)  # a second one is never read
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except WorkerRemoved:
                _log.debug("the plane keeps nothing of this task any more")
            except Exception as error:
                _log.exception("background work of a task failed")
                self._on_trouble(error)
