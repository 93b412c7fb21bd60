"""The artifact store: blobs named by their SHA-256, at any fsspec URL."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import secrets
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Protocol, cast

import fsspec
from fsspec.implementations.local import LocalFileSystem

from gpulayer.artifacts import copying
from gpulayer.errors import BlobNotFound, GPULayerError, PlaneBusy
from gpulayer.spec.files import Blob, is_digest

_CHUNK = 2 * 1024 * 1024
_ABANDONED_S = 24 * 3600.0
_RETRY_S = 2.0
_BUCKETS = frozenset(("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss"))
"""Protocols of stores without folders: asking them for one may make a bucket that nobody wanted."""
_LOOK_S = 0.005
_READ_ONLY = 0o444
_NO_LINKS = (errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


class BlobStore:
    """Blobs at ``<url>/<aa>/<sha256>``. Every call may be repeated; a blob is there whole or not at all."""

    def __init__(self, url: str) -> None:
        self.url = url
        fs, root = fsspec.core.url_to_fs(url)
        self._blobs: _Blobs = _LocalBlobs(Path(root)) if isinstance(fs, LocalFileSystem) else _RemoteBlobs(fs, root)

    def check(self) -> None:
        """Try whether blobs can be written, read and deleted; raises an error that says why not."""
        self._blobs.check()

    def has(self, sha256: str) -> bool:
        return self._blobs.has(_checked(sha256))

    def put(self, source: Path | bytes) -> Blob:
        """Store a file or bytes in constant memory; what is stored is what was hashed, also when the file changes meanwhile."""
        if isinstance(source, bytes):
            return self._blobs.put(io.BytesIO(source))
        with source.open("rb", buffering=0) as file:
            return self._blobs.put(cast(BinaryIO, file))

    def adopt(self, source: Path, blob: Blob) -> None:
        """Store a file that is known to be a blob, where it can be without a copy: nobody may write to it any more."""
        self._blobs.adopt(source, blob)

    def open(self, sha256: str) -> BinaryIO:
        """Open a blob to read and seek in; raises ``BlobNotFound``."""
        try:
            return self._blobs.open(_checked(sha256))
        except FileNotFoundError as cause:
            raise _not_found(sha256) from cause

    def fetch(self, sha256: str, to: Path) -> None:
        """Make ``to`` an independent copy of a blob, atomically; raises ``BlobNotFound`` and ``DiskFull``."""
        try:
            self._blobs.fetch(_checked(sha256), to)
        except FileNotFoundError as cause:
            raise _not_found(sha256) from cause

    def delete(self, sha256: str) -> None:
        """Remove a blob; one that isn't there is fine."""
        self._blobs.delete(_checked(sha256))


class _Blobs(Protocol):
    def check(self) -> None: ...
    def has(self, sha256: str) -> bool: ...
    def put(self, source: BinaryIO) -> Blob: ...
    def adopt(self, source: Path, blob: Blob) -> None: ...
    def open(self, sha256: str) -> BinaryIO: ...
    def fetch(self, sha256: str, to: Path) -> None: ...
    def delete(self, sha256: str) -> None: ...


class _LocalBlobs:
    """Blobs in a local folder, read-only files all of them."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._swept = False

    def _sweep(self) -> None:
        """Remove, once a process, what others left half written when they were killed."""
        if self._swept:
            return
        self._swept = True
        for part in (self._root / "parts").iterdir():
            with suppress(OSError):
                if part.stat().st_mtime < time.time() - _ABANDONED_S:
                    part.unlink()

    def _path(self, sha256: str) -> Path:
        return self._root / sha256[:2] / sha256

    def check(self) -> None:
        self.delete(self.put(io.BytesIO(secrets.token_bytes(16))).sha256)

    def has(self, sha256: str) -> bool:
        return self._path(sha256).is_file()

    def put(self, source: BinaryIO) -> Blob:
        # The copy is hashed, not the original: nobody can change it between hash and name.
        with self._part() as part:
            with part.open("x+b", buffering=0) as writing:
                blob = _copy_hashed(source, cast(BinaryIO, writing))
                os.fchmod(writing.fileno(), _READ_ONLY)
            self._name(part, blob.sha256)
        return blob

    def adopt(self, source: Path, blob: Blob) -> None:
        with self._part() as part:
            try:
                os.link(source, part)
            except OSError as cause:
                if cause.errno not in _NO_LINKS:
                    raise
                copying.copy(source, part)
            os.chmod(part, _READ_ONLY)
            self._name(part, blob.sha256)

    @contextmanager
    def _part(self) -> Iterator[Path]:
        """Give a place for a file that is not a blob yet; what is still there at the end is removed."""
        part = self._root / "parts" / secrets.token_hex(8)
        try:
            with copying.full_disk_named(self._root):
                part.parent.mkdir(parents=True, exist_ok=True)
                self._sweep()
                yield part
        finally:
            with suppress(OSError):
                part.unlink()

    def _name(self, part: Path, sha256: str) -> None:
        path = self._path(sha256)
        path.parent.mkdir(exist_ok=True)
        os.replace(part, path)

    def open(self, sha256: str) -> BinaryIO:
        return self._path(sha256).open("rb")

    def fetch(self, sha256: str, to: Path) -> None:
        copying.copy(self._path(sha256), to)

    def delete(self, sha256: str) -> None:
        self._path(sha256).unlink(missing_ok=True)


class _RemoteBlobs:
    """Blobs at any other fsspec file system; whatever goes wrong on the way there is a plane that is busy."""

    def __init__(self, fs: fsspec.AbstractFileSystem, root: str) -> None:
        self._fs = fs
        self._root = root.rstrip("/")
        self._has_folders = _BUCKETS.isdisjoint([fs.protocol] if isinstance(fs.protocol, str) else fs.protocol)

    def _path(self, sha256: str) -> str:
        return f"{self._root}/{sha256[:2]}/{sha256}"

    def check(self) -> None:
        """Write, read and delete something, and remove what was left half written long ago."""
        self.delete(self.put(io.BytesIO(secrets.token_bytes(16))).sha256)
        with self._away_named(), suppress(FileNotFoundError):
            for part in self._fs.ls(f"{self._root}/parts", detail=False):
                begun = part.rpartition("/")[2].partition("-")[0]
                if begun.isdigit() and int(begun) < time.time() - _ABANDONED_S:
                    self._fs.rm_file(part)

    def has(self, sha256: str) -> bool:
        with self._away_named():
            self._fs.invalidate_cache()
            return bool(self._fs.exists(self._path(sha256)))

    def put(self, source: BinaryIO) -> Blob:
        blob = _hash(source)
        source.seek(0)
        self._send(source, blob)
        return blob

    def adopt(self, source: Path, blob: Blob) -> None:
        with source.open("rb", buffering=0) as reading:
            self._send(cast(BinaryIO, reading), blob)

    def _send(self, source: BinaryIO, blob: Blob) -> None:
        if self.has(blob.sha256):
            return
        path = self._path(blob.sha256)
        part = f"{self._root}/parts/{int(time.time())}-{secrets.token_hex(8)}"
        try:
            with self._away_named(missing_is_away=True):
                self._make_folders(path, part)
                with self._fs.open(part, "wb") as writing:
                    sent = _copy_hashed(source, writing)
                if sent != blob:
                    raise _Changed(f"The file changed while it was stored: it had {blob.size} bytes, {sent.size} were sent.")
                self._fs.mv(part, path)
        except BaseException:
            with suppress(Exception):
                self._fs.rm_file(part)
            raise

    def _make_folders(self, *paths: str) -> None:
        if self._has_folders:
            for path in paths:
                self._fs.makedirs(self._fs._parent(path), exist_ok=True)

    def open(self, sha256: str) -> BinaryIO:
        with self._away_named():
            return cast(BinaryIO, self._fs.open(self._path(sha256), "rb"))

    def fetch(self, sha256: str, to: Path) -> None:
        with self.open(sha256) as reading, copying.written_beside(to) as writing:
            got = _copy_hashed(reading, writing)
            if got.sha256 != sha256:
                raise OSError(f"The store gave {got.size} other bytes for the blob {sha256}.")

    def delete(self, sha256: str) -> None:
        with self._away_named(), suppress(FileNotFoundError):
            self._fs.rm_file(self._path(sha256))

    @contextmanager
    def _away_named(self, *, missing_is_away: bool = False) -> Iterator[None]:
        """Make one error of the many that clients of stores raise; a blob that is missing is none."""
        try:
            yield
        except (GPULayerError, _Changed):
            raise
        except Exception as cause:
            if isinstance(cause, FileNotFoundError) and not missing_is_away:
                raise
            why = " ".join(str(cause).split()).rstrip(".") or type(cause).__name__
            where = self._fs.unstrip_protocol(self._root)
            raise PlaneBusy(f"The artifact store at {where} did not do it: {why}.", retry_after_s=_RETRY_S) from cause


class _Changed(OSError):
    """The file was written to while it was stored."""


def _copy_hashed(source: BinaryIO, target: BinaryIO) -> Blob:
    """Copy to the end of ``source`` and name what was written."""
    if isinstance(source, io.FileIO) and isinstance(target, io.FileIO):
        if copying.reflink(source, target):
            return _hash_copy(target.fileno(), None)
        if os.fstat(source.fileno()).st_size > _CHUNK:
            # The kernel copies while what it has copied is hashed; for small files a thread costs more than it saves.
            with ThreadPoolExecutor(1) as beside:
                return _hash_copy(target.fileno(), beside.submit(copying.copy_bytes, source.fileno(), target))
    digest, size = hashlib.sha256(), 0
    while data := source.read(_CHUNK):
        digest.update(data)
        copying.write_all(target, data)
        size += len(data)
    return Blob(sha256=digest.hexdigest(), size=size)


def _hash_copy(file: int, copied: Future[None] | None) -> Blob:
    """Hash a file that grows until it is ``copied``."""
    digest, size, room = hashlib.sha256(), 0, memoryview(bytearray(_CHUNK))
    while True:
        whole = copied is None or copied.done()
        got = os.preadv(file, [room], size)
        digest.update(room[:got])
        size += got
        if not got and whole:
            if copied is not None:
                copied.result()
            return Blob(sha256=digest.hexdigest(), size=size)
        if not got and copied is not None:
            wait([copied], _LOOK_S)


def _hash(source: BinaryIO) -> Blob:
    source.seek(0)
    digest, size = hashlib.sha256(), 0
    while data := source.read(_CHUNK):
        digest.update(data)
        size += len(data)
    return Blob(sha256=digest.hexdigest(), size=size)


def _checked(sha256: str) -> str:
    if not is_digest(sha256):
        raise _not_found(sha256)
    return sha256


def _not_found(sha256: str) -> BlobNotFound:
    return BlobNotFound(f"The store has no blob {sha256[:80]}.", sha256=sha256)
