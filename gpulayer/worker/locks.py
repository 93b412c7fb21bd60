"""Locks that the kernel frees when their holder dies: POSIX record locks on files (standard library only)."""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterable
from pathlib import Path

_FLOCK = "hhqqi4x"
"""struct flock on 64-bit Linux: type, whence, start, len, pid."""


def device_folder() -> Path:
    """Return the machine-wide folder of device locks of this user; TMPDIR has no say, or two shells would disagree."""
    return Path(f"/tmp/gpulayer-devices-{os.getuid()}")


def make_private(folder: Path) -> None:
    """Create a folder for this user alone; raises ``PermissionError`` when somebody else made it first."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.is_symlink() or folder.lstat().st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to somebody else.")


class Held:
    """Locks that this process holds until it ends."""

    def __init__(self) -> None:
        self._files: list[int] = []

    def take(self, paths: Iterable[Path]) -> tuple[Path, int] | None:
        """Lock all of ``paths`` or none; returns the first that another process has, with its pid (0 if it just left).

        No file may be one that this process has locked already: closing it again would free the lock.
        """
        taken: list[int] = []
        for path in sorted(paths):
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            taken.append(file)
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError):
                holder = holder_of(file)
                for each in taken:
                    os.close(each)
                return path, holder
        self._files += taken
        return None


def holder_of(file: int) -> int:
    """Return the pid of the process that holds an exclusive lock on an open file; 0 when none does."""
    asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(file, fcntl.F_GETLK, asked))
    return 0 if kind == fcntl.F_UNLCK else int(pid)


def is_held(path: Path) -> bool:
    """Say whether another process holds the lock of a file."""
    return holder(path) != 0


def holder(path: Path) -> int:
    """Return the pid of the other process that holds the lock of a file; 0 when none does."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0
    try:
        return holder_of(file)
    finally:
        os.close(file)
