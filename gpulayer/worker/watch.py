"""Watches the process that started us: whether it lives, and whether it has said that no job will come."""

from __future__ import annotations

import os
import select

from gpulayer.worker import processes


class CallerWatch:
    """Watches a pid by pidfd and a pipe by its end.

    The pipe alone would not do: a forked child of the caller can hold it open for ever. ``gone`` is about the process;
    ``silent`` says that the pipe ended or "bye" came through it: no further job will come.
    """

    def __init__(self, pid: int, pipe: int) -> None:
        self.pid = pid
        self.gone = False
        self.silent = False
        self._pipe: int | None = pipe
        self._poll = select.poll()
        self._poll.register(pipe, select.POLLIN)
        try:
            self._pidfd: int | None = os.pidfd_open(pid)
            self._poll.register(self._pidfd, select.POLLIN)
        except (OSError, AttributeError):
            self._pidfd = None
            self._look()

    def wait(self, timeout_s: float) -> None:
        """Wait until something changed or the time passed."""
        for file, _ in self._poll.poll(timeout_s * 1000):
            if file == self._pidfd:
                self.gone = self.silent = True
                self._poll.unregister(file)
            elif file == self._pipe:
                self._hear(file)
        if self._pidfd is None:
            self._look()

    def _hear(self, file: int) -> None:
        data = os.read(file, 4096)
        if b"bye" in data:
            self.silent = True
        if not data:
            self.silent = True
            self._poll.unregister(file)
            self._pipe = None

    def _look(self) -> None:
        found = processes.stat(self.pid)
        if found is None or not found.alive:
            self.gone = self.silent = True
