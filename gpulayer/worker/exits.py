"""How a process ended, seen by somebody who is not its parent."""

from __future__ import annotations

import os
import select
from pathlib import Path

from gpulayer.worker import processes


class Watched:
    """A process that is watched through a pidfd.

    Its parent alone learns its exit status, but until the parent asks, the zombie shows it in /proc. Torchrun asks ten times a
    second; where we come later, its note ``exit.<pid>`` in ``notes`` is there, written before it asked.
    """

    def __init__(self, pid: int, notes: Path) -> None:
        self.pid = pid
        self._note = notes / f"exit.{pid}"
        self.ended = False
        self.exit_code: int | None = None
        """As Python gives it: negative for a signal; None while unknown."""
        try:
            self._pidfd: int | None = os.pidfd_open(pid)
        except (OSError, AttributeError):
            self._pidfd = None
            self.look()

    def fileno(self) -> int:
        return -1 if self._pidfd is None else self._pidfd

    def look(self) -> bool:
        """Say whether it has ended, and remember how."""
        if not self.ended and not (self._pidfd is not None and not _readable(self._pidfd)):
            found = processes.stat(self.pid)
            if found is not None and found.alive and self._pidfd is None:
                return False
            self.ended = True
            self.exit_code = processes.exit_code_of(found.status) if found is not None and not found.alive else self._noted()
        return self.ended

    def await_end(self, timeout_s: float = 60.0) -> None:
        """Wait until it has ended, or for a time: a process may close its files long before."""
        if self.ended or self._pidfd is None:
            return
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        poll.poll(timeout_s * 1000)
        self.look()

    def _noted(self) -> int | None:
        try:
            return int(self._note.read_text())
        except (OSError, ValueError):
            return None

    def close(self) -> None:
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None


def _readable(file: int) -> bool:
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return bool(poll.poll(0))
