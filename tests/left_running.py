"""Finds processes that still belong to a home."""

from __future__ import annotations

import os
import time
from pathlib import Path


def left_running(home: Path) -> dict[int, str]:
    """Return pid -> command line of processes whose environment or arguments name the home; zombies and callers aside.

    A process started by a test carries the home in its environment, a worker host on its command line, and whatever a task
    started carries its task folder, wherever it went and whoever its parent is now.
    """
    mark = os.fsencode(home)
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) in (os.getpid(), os.getppid()):
            continue
        try:
            state = (folder / "stat").read_bytes().rpartition(b")")[2].split()[0]
            arguments = (folder / "cmdline").read_bytes()
            if state != b"Z" and (mark in arguments or mark in (folder / "environ").read_bytes()):
                found[int(folder.name)] = arguments.replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:  # it ended while we looked, or isn't ours to see
            continue
    return found


def wait_until_none_is_left(home: Path, *, within_s: float = 10.0) -> dict[int, str]:
    """Wait until nothing of the home runs; return what still does after the deadline."""
    deadline = time.monotonic() + within_s
    while (left := left_running(home)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left
