"""Copies of files that share no bytes with their original: a reflink where the file system can, else a copy."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from gpulayer.errors import DiskFull

PART_SUFFIX = ".gpulayer-part"
_FICLONE = 0x40049409
_CHUNK = 1024 * 1024


@contextmanager
def written_beside(to: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Give a file to write that becomes ``to`` at the end, whole or not at all; raises ``DiskFull``."""
    part = to.with_name(f".{to.name[:100]}.{secrets.token_hex(6)}{PART_SUFFIX}")
    try:
        with full_disk_named(to):
            to.parent.mkdir(parents=True, exist_ok=True)
            with os.fdopen(os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "w+b", buffering=0) as file:
                yield file
            os.replace(part, to)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise


@contextmanager
def full_disk_named(where: Path) -> Iterator[None]:
    """Make ``DiskFull`` of the errors that say so."""
    try:
        yield
    except OSError as cause:
        if cause.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise DiskFull(f"No space is left for {where}.", path=str(where)) from cause


def reflink(source: BinaryIO, target: BinaryIO) -> bool:
    """Make ``target`` share the blocks of ``source`` until either is written; say whether the file system could."""
    try:
        import fcntl

        fcntl.ioctl(target.fileno(), _FICLONE, source.fileno())
    except (OSError, ImportError):
        return False
    return True


def copy(source: Path, to: Path) -> None:
    """Make ``to`` an independent copy of ``source``, atomically."""
    with source.open("rb", buffering=0) as reading, written_beside(to) as writing:
        if not reflink(reading, writing):
            copy_bytes(reading.fileno(), writing)


def copy_bytes(source: int, target: BinaryIO) -> None:
    """Copy from where a file stands to its end: in the kernel as far as it can, and by hand from there."""
    try:
        while os.copy_file_range(source, target.fileno(), 1 << 30):
            pass
    except AttributeError:
        pass  # not Linux
    except OSError as cause:
        if cause.errno not in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EXDEV):
            raise
    while data := os.read(source, _CHUNK):
        write_all(target, data)


def write_all(target: BinaryIO, data: bytes) -> None:
    """Write all of ``data`` to an unbuffered file."""
    left = memoryview(data)
    while left:
        left = left[target.write(left) :]
