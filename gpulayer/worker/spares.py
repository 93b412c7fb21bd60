"""Guards that wait for a task: starting Python takes most of the time that a short task takes."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from dataclasses import dataclass

from gpulayer.worker import orphans


@dataclass(frozen=True)
class Spare:
    """A guard that has no task yet, and our end of the line to it; it ends with this process."""

    process: subprocess.Popen[bytes]
    line: socket.socket

    def let_go(self) -> None:
        """Have it end."""
        self.line.close()
        self.process.wait()
        orphans.forget_guard(self.process.pid)


class Spares:
    """The guards that this process keeps ready: none, until ``keep`` says how many."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ready: list[Spare] = []
        self._wanted = 0
        self._again = False

    def keep(self, count: int, *, again: bool) -> None:
        """Have some ready; with ``again``, each that is taken has a successor."""
        with self._lock:
            self._wanted, self._again = count, again
        self._fill()

    def take(self) -> Spare:
        """Return one that waits, or a new one."""
        with self._lock:
            ready = [spare for spare in self._ready if spare.process.poll() is None]
            taken = ready.pop(0) if ready else None
            self._ready, again = ready, self._again
        if again:
            threading.Thread(target=self._fill, name="gpulayer-spares", daemon=True).start()
        return taken or start()

    def close(self) -> None:
        """Let all go, and keep no more."""
        with self._lock:
            left, self._ready, self._wanted = self._ready, [], 0
        for spare in left:
            spare.let_go()

    def _fill(self) -> None:
        with self._lock:
            while len(self._ready) < self._wanted:
                self._ready.append(start())


def start() -> Spare:
    """Start a guard."""
    ours, theirs = socket.socketpair()
    process = orphans.start_guard(
        lambda: subprocess.Popen(
            [sys.executable, "-P", "-m", "gpulayer.worker.guard", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )
    )
    theirs.close()
    return Spare(process, ours)


OF_THIS_PROCESS = Spares()
