"""Blobs on their way in: each grows in a file of its own until it is whole, and is kept only if it is what its name says."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

import anyio
import anyio.to_thread

from gpulayer.control.server.growing import Growing
from gpulayer.control.server.keeping import Keeper
from gpulayer.errors import BadRequest, MessageTooLarge
from gpulayer.spec.files import Blob, is_digest

LONGEST_BLOB = 1024 * 1024**3
ABANDONED_S = 24 * 3600.0
"""An upload that nobody goes on with for so long is forgotten."""

_SPAN = re.compile(r"bytes (?:(\d{1,15})-(\d{1,15})|\*)/(\d{1,15})\Z")


_THREADS = 16
_MOST_IDLE = 16
"""How many uploads are kept open between two parts; others are hashed once more at their end."""
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
        self._lock = threading.Lock()
        self._growing: dict[Path, Growing] = {}
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
        growing = self._join(self._path(whose, sha256), sha256)
        return Upload(growing, part, self._keeper, lambda: self._leave(growing))

    def _join(self, path: Path, sha256: str) -> Growing:
        with self._lock:
            growing = self._growing.pop(path, None)
            if growing is not None and (growing.over or not growing.is_at(path)):
                self._close_unless_used(growing)
                growing = None
            growing = growing or Growing(path, sha256)
            growing.users += 1
            self._growing[path] = growing  # as the newest
            return growing

    def _leave(self, growing: Growing) -> None:
        """An upload that isn't whole stays open for its next part, if it is none of too many."""
        with self._lock:
            growing.users -= 1
            if growing.over and self._growing.get(growing.path) is growing:
                del self._growing[growing.path]
            if self._growing.get(growing.path) is not growing:
                self._close_unless_used(growing)
            idle = [each for each in self._growing.values() if not each.users]
            for each in idle[: max(0, len(idle) - _MOST_IDLE)]:
                del self._growing[each.path]
                each.close()

    def _close_unless_used(self, growing: Growing) -> None:
        if not growing.users:
            growing.close()

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
            with self._lock, suppress(OSError):  # not between the making of a folder and of the file in it
                folder.rmdir()

    def _path(self, whose: str, sha256: str) -> Path:
        return self._folder / whose / sha256


class Upload:
    """One part on its way into its blob. Bytes that are there already are passed over."""

    def __init__(self, growing: Growing, part: Part, keeper: Keeper, leave: Callable[[], None]) -> None:
        self._growing = growing
        self._part = part
        self._keeper = keeper
        self._leave = leave
        self._at = part.start
        self._follows = part.start <= growing.size

    def write(self, data: bytes | bytearray) -> None:
        """Write the next bytes of the part; one that would leave a gap is dropped."""
        if self._at + len(data) > self._part.start + self._part.length:
            raise BadRequest("The body is longer than its Content-Range says.")
        if self._follows:
            self._growing.write(memoryview(data), self._at)
            self._at += len(data)

    def finish(self) -> Blob | int:
        """Return the blob once it is whole, else how much of it is there; other bytes than promised are a ``BadRequest``."""
        return self._growing.finish(self._part.total, self._keeper)

    def close(self) -> None:
        self._leave()


def _checked(sha256: str) -> str:
    if not is_digest(sha256):
        raise BadRequest("A blob is named by its SHA-256, in 64 lower-case hexadecimal digits.")
    return sha256


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
