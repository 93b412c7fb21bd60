"""Files that only their owner may read, whole or not there."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path


def make_private_folder(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def write_private(path: Path, data: bytes) -> None:
    """Put a file (0600) in the place of what was there."""
    beside = _beside(path, data)
    os.replace(beside, path)


def write_private_once(path: Path, data: bytes) -> bytes:
    """Write a file (0600) unless it is there already; returns what it holds, whoever was first."""
    beside = _beside(path, data)
    try:
        with suppress(FileExistsError):
            os.link(beside, path)
    finally:
        os.unlink(beside)
    return path.read_bytes()


def _beside(path: Path, data: bytes) -> str:
    descriptor, beside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # 0600 from its first moment
    with os.fdopen(descriptor, "wb") as writing:
        writing.write(data)
        writing.flush()
        os.fsync(writing.fileno())
    return beside
