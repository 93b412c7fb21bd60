"""Removes what a task leaves behind: processes that outlived their guard, and folders whose files are stored."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from gpulayer.spec.records import Order
from gpulayer.worker import locks, prepare, processes
from gpulayer.worker.layout import TaskFolders

_PERIOD_S = 0.02
SIBLINGS_S = 15.0
"""How long who stores or removes a shared work folder waits for the others' processes."""


def kill_marked(task: Path, timeout_s: float = 10.0) -> list[int]:
    """Kill all processes that started with this task in their environment, which a dead guard can't; return what is left."""
    mark = f"GPULAYER_TASK_DIR={task}"
    deadline = time.monotonic() + timeout_s
    while (left := processes.marked(mark)) and time.monotonic() < deadline:
        processes.kill(left)
        time.sleep(_PERIOD_S)
        for pid in left:
            with suppress(ChildProcessError):  # those that we adopted are ours to reap
                os.waitpid(pid, os.WNOHANG)
    return left


def await_free(paths: Iterable[Path], timeout_s: float) -> bool:
    """Wait until no process holds any of these locks: then the tasks they stand for have no process left."""
    deadline = time.monotonic() + timeout_s
    waiting = list(paths)
    while waiting := [path for path in waiting if locks.is_held(path)]:
        if time.monotonic() > deadline:
            return False
        time.sleep(_PERIOD_S)
    return True


def clear(order: Order, where: TaskFolders, siblings: Iterable[Path]) -> None:
    """Remove the folders of an ended task; a shared work folder goes with the task that tends it, after the others."""
    where.remove()
    if prepare.tends(order) and await_free(siblings, SIBLINGS_S):
        shutil.rmtree(where.work, ignore_errors=True)
        for path in (where.baseline, prepare.marker(where)):
            path.unlink(missing_ok=True)
