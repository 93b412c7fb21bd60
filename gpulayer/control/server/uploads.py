"""Blobs on their way in: each grows in a file of its own until it is whole, and is kept only if it is what its name says."""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

import anyio
import anyio.to_thread

from gpulayer.artifacts.copying import full_disk_named
from gpulayer.control.server.keeping import Keeper
from gpulayer.errors import BadRequest, MessageTooLarge
from gpulayer.spec.files import Blob

LONGEST_BLOB = 1024 * 1024**3
ABANDONED_S = 24 * 3600.0
"""An upload that nobody goes on with for so long is forgotten."""

_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_SPAN = re.compile(r"bytes (?:(\d{1,15})-(\d{1,15})|\*)/(\d{1,15})\Z")


_THREADS = 16
Found = TypeVar("Found")


class Part(NamedTuple):
    """Some bytes of a blob: where they begin, how many they are, and how many the whole has."""

    start: int
    length: int
    total: int


def part_of(content_range: str | None, content_length: int | None) -> Part:
    """Read a ``Content-Range: bytes a-b/total`` (or ``bytes */total`` without any); without one, the body is the whole."""
    if content_range is None:
        if content_length is None:
            raise BadRequest("A blob without Content-Range needs a Content-Length.")
        return Part(0, content_length, content_length)
    found = _SPAN.match(content_range)
    if found is None:
        raise BadRequest("Content-Range must read `bytes first-last/total`.")
    total = int(found[3])
    if found[1] is None:
        return Part(0, 0, total)
    first, last = int(found[1]), int(found[2])
    if not first <= last < total or content_length not in (None, last - first + 1):
        raise BadRequest("Content-Range does not fit the body or the whole.")
    return Part(first, last - first + 1, total)


class Uploads:
    """The uploads of one server, in a folder; those of one token are apart from those of another."""

    def __init__(self, folder: Path, keeper: Keeper, longest: int = LONGEST_BLOB) -> None:
        self._folder = folder
        self._keeper = keeper
        self._longest = longest
        self._threads = anyio.CapacityLimiter(_THREADS)

    async def in_thread(self, ask: Callable[[], Found]) -> Found:
        """Do what may take as long as the artifact store likes, in a thread that no other question waits for."""
        return await anyio.to_thread.run_sync(ask, limiter=self._threads)

    def begin(self, whose: str, sha256: str, part: Part) -> Upload | Blob:
        """Return the upload to write a part to; or the blob, when there is nothing left to write."""
        _checked(sha256)
        if part.total > self._longest:
            raise MessageTooLarge(f"A blob has at most {self._longest:,} bytes here.", next_step="", size=part.total)
        if self._keeper.has(sha256):
            return Blob(sha256=sha256, size=part.total)
        return Upload(self._path(whose, sha256), sha256, part, self._keeper)

    def offset(self, whose: str, sha256: str) -> int:
        """Return how much of an upload is there."""
        return _size(self._path(whose, _checked(sha256)))

    def forget_abandoned(self) -> None:
        """Remove what nobody goes on with."""
        for folder in self._folder.glob("*"):
            for path in folder.iterdir():
                with suppress(FileNotFoundError):
                    if path.stat().st_mtime < time.time() - ABANDONED_S:
                        path.unlink()
            with suppress(OSError):
                folder.rmdir()

    def _path(self, whose: str, sha256: str) -> Path:
        return self._folder / whose / sha256


class Upload:
    """One part on its way into the file of its upload. Bytes that are there already are written over with the same."""

    def __init__(self, path: Path, sha256: str, part: Part, keeper: Keeper) -> None:
        self._path = path
        self._sha256 = sha256
        self._part = part
        self._keeper = keeper
        self._at = part.start
        with full_disk_named(path):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._follows = part.start <= os.fstat(self._file).st_size

    def write(self, data: bytes) -> None:
        """Write the next bytes of the part; one that would leave a gap is dropped."""
        if self._at + len(data) > self._part.start + self._part.length:
            raise BadRequest("The body is longer than its Content-Range says.")
        if self._follows:
            with full_disk_named(self._path):
                left = memoryview(data)
                while left:
                    written = os.pwrite(self._file, left, self._at)
                    self._at += written
                    left = left[written:]

    def finish(self) -> Blob | int:
        """Return the blob once it is whole, else how much of it is there; other bytes than promised are a ``BadRequest``."""
        there = os.fstat(self._file).st_size
        if there < self._part.total:
            return there
        try:
            if there != self._part.total or self._digest() != self._sha256:
                raise BadRequest(
                    f"These bytes are not {self._sha256}; nothing of them was kept.", next_step="Send it again from the start."
                )
            return self._keeper.put(self._path)
        except FileNotFoundError:  # another upload of the same blob was whole first
            return Blob(sha256=self._sha256, size=there)
        finally:
            self._path.unlink(missing_ok=True)

    def _digest(self) -> str:
        with os.fdopen(os.dup(self._file), "rb") as reading:
            reading.seek(0)
            return hashlib.file_digest(reading, "sha256").hexdigest()

    def close(self) -> None:
        os.close(self._file)


def _checked(sha256: str) -> str:
    if not _SHA256.match(sha256):
        raise BadRequest("A blob is named by its SHA-256, in 64 lower-case hexadecimal digits.")
    return sha256


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
