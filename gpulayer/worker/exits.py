"""How a process ended, seen by somebody who is not its parent."""

from __future__ import annotations

import os
import select

from gpulayer.worker import processes


class Watched:
    """A process that is watched through a pidfd.

    Its parent alone learns its exit status, but until the parent asks, the zombie shows it in /proc; torchrun asks ten times a
    second, we look within a millisecond. Where we still came too late, torchrun's own words to the guard tell.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
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
            if found is not None and not found.alive:
                self.exit_code = processes.exit_code_of(found.status)
        return self.ended

    def await_end(self, timeout_s: float = 60.0) -> None:
        """Wait until it has ended, or for a time: a process may close its files long before."""
        if self.ended or self._pidfd is None:
            return
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        poll.poll(timeout_s * 1000)
        self.look()

    def close(self) -> None:
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None


def _readable(file: int) -> bool:
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return bool(poll.poll(0))
