"""What lost guards leave to the worker's own process, which adopts it: it is ended before their task's end is told.

A process may drop its environment, by which a task's are found; its parent it can't choose. A host starts nothing but guards.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from gpulayer.worker import processes

_PERIOD_S = 0.02
_guards: set[int] = set()
_changing = threading.Lock()
"""Held while a guard starts: until it is known, it looks like an orphan."""


def start_guard(start: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    """Start a guard, which with all that is below it is none of ours to end."""
    with _changing:
        guard = start()
        _guards.add(guard.pid)
    return guard


def forget_guard(pid: int) -> None:
    """Take note that a guard has ended and was reaped."""
    with _changing:
        _guards.discard(pid)


def end(timeout_s: float = 10.0) -> list[int]:
    """Kill all that this process adopted, until none is left; return what the kernel does not end in time.

    A process that adopts nothing, as when workers are threads of a larger program, has children of its own: they are let be.
    """
    if not processes.adopts_orphans():
        return []
    deadline = time.monotonic() + timeout_s
    while (left := _kill_all()) and time.monotonic() < deadline:
        time.sleep(_PERIOD_S)
        for pid in left:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
    return left


def _kill_all() -> list[int]:
    with _changing:
        left = [process.pid for process in processes.descendants(os.getpid(), without=_guards)]
        processes.kill(left)
    return left
