"""What /proc says of processes: descendants, exit statuses, marks in their environment (standard library only)."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import NamedTuple

_PR_SET_CHILD_SUBREAPER = 36
_PR_GET_CHILD_SUBREAPER = 37
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


class ProcessStat(NamedTuple):
    """One line of /proc/<pid>/stat, as far as it matters; ``status`` is a wait status, true for zombies only."""

    pid: int
    name: str
    state: str
    parent: int
    group: int
    status: int
    started: int
    """In clock ticks after the machine's start: with the pid, it names a process for good."""
    used_s: float
    """Processor time of its own."""

    @property
    def alive(self) -> bool:
        return self.state not in "ZXx"


def stat(pid: int) -> ProcessStat | None:
    """Look at one process; None when there is none."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        return None
    name, _, rest = text.partition(" (")[2].rpartition(") ")
    fields = rest.split()
    return ProcessStat(
        pid=pid,
        name=name,
        state=fields[0],
        parent=int(fields[1]),
        group=int(fields[2]),
        status=int(fields[-1]),
        started=int(fields[19]),
        used_s=(int(fields[11]) + int(fields[12])) / _TICKS_A_SECOND,
    )


def moved(pid: int) -> int:
    """Return the bytes that a process has read from and written to files and pipes; 0 where that is not ours to see."""
    try:
        with open(f"/proc/{pid}/io", encoding="ascii") as file:
            fields = dict(line.split(": ") for line in file)
    except OSError:
        return 0
    return int(fields["rchar"]) + int(fields["wchar"])


def every() -> Iterator[ProcessStat]:
    """Look at all processes of this machine (this pid namespace)."""
    for name in os.listdir("/proc"):
        if name.isdigit() and (found := stat(int(name))) is not None:
            yield found


def descendants(root: int, without: Collection[int] = ()) -> list[ProcessStat]:
    """Return the living processes below ``root``, wherever they moved their session to, ``without`` some and what is below."""
    by_parent: dict[int, list[ProcessStat]] = {}
    for process in every():
        by_parent.setdefault(process.parent, []).append(process)
    found: list[ProcessStat] = []
    todo = [root]
    while todo:
        children = [child for child in by_parent.get(todo.pop(), []) if child.pid not in without]
        found += (child for child in children if child.alive)
        todo += (child.pid for child in children)
    return found


def marked(mark: str) -> list[int]:
    """Return the living processes that started with ``NAME=value`` in their environment."""
    wanted = os.fsencode(mark)
    found = []
    for process in every():
        with suppress(OSError), open(f"/proc/{process.pid}/environ", "rb") as file:
            if process.alive and process.pid != os.getpid() and wanted in file.read().split(b"\0"):
                found.append(process.pid)
    return found


def kill(pids: list[int], number: int = signal.SIGKILL) -> None:
    """Signal processes; those that are gone already don't matter."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent dies: what a killed guard guarded is then ours, and not init's."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def adopts_orphans() -> bool:
    """Say whether this process became the parent of its orphaned descendants."""
    found = ctypes.c_int(0)
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(found), 0, 0, 0)
    return bool(found.value)


def exit_code_of(status: int) -> int:
    """Return a wait status as Python does: negative for a signal."""
    return os.waitstatus_to_exitcode(status)
