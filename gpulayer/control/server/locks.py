"""Lock files that say whether a process lives: the kernel frees them however it died."""

from __future__ import annotations

import fcntl
import os
import struct
import sys
import threading
from pathlib import Path

_LAYOUT = "hhqqi4x" if sys.platform == "linux" else "qqihh"
"""struct flock: (type, whence, start, len, pid) on Linux, (start, len, pid, type, whence) on macOS."""

_guard = threading.Lock()
_held: dict[str, tuple[int, int]] = {}
"""File name to (pid, descriptor) of our own locks. POSIX drops all locks that a process has on a file as soon as it closes any
descriptor of that file: so a lock of ours is never tested through the file, by whatever path it is reached."""


def hold(path: Path) -> None:
    """Take the lock for the life of this process; no other file that is locked anywhere may have this name."""
    with _guard:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _held[path.name] = (os.getpid(), descriptor)


def release(path: Path) -> None:
    with _guard:
        pid, descriptor = _held.pop(path.name, (0, -1))
        if pid == os.getpid():
            os.close(descriptor)


def is_held(path: Path) -> bool:
    """Say whether a living process holds the lock, without taking it for a moment (its owner may be about to)."""
    with _guard:
        if _held.get(path.name, (0, -1))[0] == os.getpid():
            return True
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            return _asked(descriptor) != fcntl.F_UNLCK
        finally:
            os.close(descriptor)


def _asked(descriptor: int) -> int:
    question = (fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    if sys.platform == "linux":
        answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, struct.pack(_LAYOUT, *question))
        return int(struct.unpack(_LAYOUT, answer)[0])
    kind, whence, start, length, pid = question
    answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, struct.pack(_LAYOUT, start, length, pid, kind, whence))
    return int(struct.unpack(_LAYOUT, answer)[3])
