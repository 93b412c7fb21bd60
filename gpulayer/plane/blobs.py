"""Blobs over HTTP: sent in parts that go on where they broke off, read in ranges, checked against their hash."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from gpulayer.artifacts.copying import write_all, written_beside
from gpulayer.errors import BlobNotFound, PlaneError, PlaneUnreachable
from gpulayer.spec.files import Blob
from gpulayer.transport.http import Broken, Http

PART = 8 * 1024 * 1024
READ_AHEAD = 4 * 1024 * 1024
_CHUNK = 1024 * 1024
_PIECE = 256 * 1024
_LOST, _MOST_LOST = "offset", 5


class RemoteBlobs:
    """The blobs of a plane behind HTTP; every call may be repeated, and needs no more memory than one part."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def has(self, sha256: str) -> bool:
        return self._http.ask("HEAD", f"/v1/blobs/{sha256}", accept=(404,)).is_success

    def put(self, source: Path | bytes) -> Blob:
        if isinstance(source, bytes):
            return self._put(io.BytesIO(source))
        with source.open("rb", buffering=0) as file:
            return self._put(cast(BinaryIO, file))

    def _put(self, source: BinaryIO) -> Blob:
        blob = _hashed(source)
        offset = 0
        if blob.size > PART:
            if self.has(blob.sha256):
                return blob
            offset = self._offset(blob)
        return self._send(source, blob, offset)

    def _send(self, source: BinaryIO, blob: Blob, offset: int) -> Blob:
        """Send parts from ``offset`` until the plane says that all is there; it may name another offset to go on from."""
        repeated, room = 0, memoryview(bytearray(min(PART, blob.size)))
        while True:
            source.seek(offset)
            part = _read(source, room[: blob.size - offset])
            span = f"{offset}-{offset + len(part) - 1}" if part else "*"
            headers = {"Content-Range": f"bytes {span}/{blob.size}", "Content-Type": "application/octet-stream"}
            headers["Content-Length"] = str(len(part))
            # Whole, it would be copied anew for each piece that the socket takes.
            pieces = [part[at : at + _PIECE] for at in range(0, len(part), _PIECE)]
            answer = self._http.ask("PUT", f"/v1/blobs/{blob.sha256}", content=cast(Any, pieces), headers=headers)
            told = answer.json()
            if "sha256" in told:
                return Blob.model_validate(told)
            repeated = 0 if int(told[_LOST]) > offset else repeated + 1
            offset = int(told[_LOST])
            if repeated > _MOST_LOST or offset > blob.size or (offset == blob.size and not part):
                raise PlaneError(f"The plane takes no more of {blob.sha256} at {offset:,} of {blob.size:,} bytes.")

    def _offset(self, blob: Blob) -> int:
        return min(int(self._http.ask("GET", f"/v1/uploads/{blob.sha256}").json()[_LOST]), max(0, blob.size - 1))

    def open(self, sha256: str) -> BinaryIO:
        """Open a blob to read and seek in; raises ``BlobNotFound``."""
        answer = self._http.ask("HEAD", f"/v1/blobs/{sha256}", accept=(404,))
        if not answer.is_success:
            raise BlobNotFound(f"The plane has no blob {sha256}.", sha256=sha256)
        return cast(BinaryIO, SizedReader(_Ranges(self._http, sha256, int(answer.headers["Content-Length"]))))

    def fetch(self, sha256: str, to: Path) -> None:
        """Write a blob to a local path, atomically; raises ``BlobNotFound`` and ``DiskFull``."""
        digest = hashlib.sha256()
        with written_beside(to) as writing:
            for data in self._stream(sha256):
                digest.update(data)
                write_all(writing, data)
            if digest.hexdigest() != sha256:
                raise OSError(f"The plane gave other bytes for the blob {sha256}.")

    def _stream(self, sha256: str) -> Iterator[bytes]:
        """Give the whole of a blob; after a broken connection, go on behind the last byte that came."""
        done, size, broken = 0, None, 0
        while size is None or done < size:
            came = done
            try:
                with _ranged(self._http, sha256, done, None) as (total, body):
                    size = total
                    for data in body:
                        done += len(data)
                        yield data
                if done < size:
                    raise Broken(f"it ended at {done:,} of {size:,} bytes")
            except Broken as cause:
                broken = 0 if done > came else broken + 1
                if broken > _MOST_LOST:
                    raise PlaneUnreachable(f"The blob {sha256} could not be read to its end: {cause}.") from cause


class SizedReader(io.BufferedReader):
    """A blob that is read ahead, and knows its size without reading."""

    def __init__(self, ranges: _Ranges) -> None:
        super().__init__(ranges, READ_AHEAD)
        self.size = ranges.size


class _Ranges(io.RawIOBase):
    """A blob as a file of ranges, each fetched when it is read."""

    def __init__(self, http: Http, sha256: str, size: int) -> None:
        super().__init__()
        self.size = size
        self._http = http
        self._sha256 = sha256
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size}[whence]
        if start + offset < 0:
            raise ValueError(f"negative seek position {start + offset}")
        self._at = start + offset
        return self._at

    def readall(self) -> bytes:
        rest = bytearray(max(0, self.size - self._at))
        self.readinto(rest)
        return bytes(rest)

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer from one range, however often the connection breaks."""
        into = memoryview(buffer).cast("B")
        wanted = max(0, min(len(into), self.size - self._at))
        got, broken = 0, 0
        while got < wanted:
            came = got
            try:
                with _ranged(self._http, self._sha256, self._at + got, self._at + wanted) as (_, body):
                    for data in body:
                        into[got : got + len(data)] = data
                        got += len(data)
                if got == came:
                    raise Broken("nothing came")
            except Broken as cause:
                broken = 0 if got > came else broken + 1
                if broken > _MOST_LOST:
                    raise PlaneUnreachable(f"The blob {self._sha256} could not be read: {cause}.") from cause
        self._at += got
        return got


@contextmanager
def _ranged(http: Http, sha256: str, start: int, end: int | None) -> Iterator[tuple[int, Iterator[bytes]]]:
    """Ask for bytes from ``start`` (to before ``end``); the size of the whole blob, and the bytes."""
    whole = start == 0 and end is None
    headers = {} if whole else {"Range": f"bytes={start}-{'' if end is None else end - 1}"}
    with http.stream(f"/v1/blobs/{sha256}", headers=headers) as (answer, body):
        if not whole and answer.status_code != 206:
            raise PlaneError(f"{http.url} gives no ranges of blobs.", next_step="A proxy on the way may be dropping them.")
        total = answer.headers["Content-Length"] if whole else answer.headers["Content-Range"].rpartition("/")[2]
        yield int(total), body


def _hashed(source: BinaryIO) -> Blob:
    digest, size, room = hashlib.sha256(), 0, memoryview(bytearray(_CHUNK))
    while data := _read(source, room):
        digest.update(data)
        size += len(data)
    return Blob(sha256=digest.hexdigest(), size=size)


def _read(source: BinaryIO, room: memoryview) -> memoryview:
    """Fill what there is room for from an unbuffered file; it is less at the file's end."""
    done = 0
    while done < len(room) and (got := source.readinto(room[done:])):  # type: ignore[attr-defined]
        done += got
    return room[:done]
