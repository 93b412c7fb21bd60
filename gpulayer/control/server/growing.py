"""A blob that is not whole yet: a file that is hashed as it grows, shared by all who send parts of it meanwhile."""

from __future__ import annotations

import fcntl
import hashlib
import os
import threading
from pathlib import Path

from gpulayer.artifacts.copying import full_disk_named
from gpulayer.control.server.keeping import Keeper
from gpulayer.errors import BadRequest, PlaneBusy
from gpulayer.spec.files import Blob

_CHUNK = 1024 * 1024
_RETRY_S = 1.0


class Growing:
    """The file at ``path``, which no other server writes to until ``close``.

    Bytes that are hashed are never written over, and nothing is written once it was seen as a whole: so what was hashed is what
    is there, and the file can become the blob as it is. What was there before is hashed at the end.
    """

    def __init__(self, path: Path, sha256: str) -> None:
        self.path = path
        self.users = 0
        self.over = False
        self._sha256 = sha256
        self._lock = threading.Lock()
        self._digest = hashlib.sha256()
        self._hashed = 0
        self._blob: Blob | None = None
        with full_disk_named(path):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as cause:
            os.close(self._file)
            raise PlaneBusy("Another server takes this blob just now.", retry_after_s=_RETRY_S) from cause

    @property
    def size(self) -> int:
        return os.fstat(self._file).st_size

    def is_at(self, path: Path) -> bool:
        """Whether that is still the file: a name that nobody went on with is removed."""
        try:
            return os.path.samestat(os.stat(path), os.fstat(self._file))
        except FileNotFoundError:
            return False

    def write(self, data: memoryview, at: int) -> None:
        with self._lock:
            if self.over:
                return
            follows = at <= self._hashed
            if follows:
                data, at = data[self._hashed - at :], self._hashed
            with full_disk_named(self.path):
                _write_all(self._file, data, at)
            if follows:
                self._digest.update(data)
                self._hashed += len(data)

    def finish(self, total: int, keeper: Keeper) -> Blob | int:
        """Return the blob once it is whole, else how much of it is there; other bytes than promised are a ``BadRequest``."""
        with self._lock:
            if not self.over:
                if self.size < total:
                    return self.size
                self._keep(total, keeper)
            if self._blob is None:
                raise BadRequest(
                    f"These bytes are not {self._sha256}; nothing of them was kept.", next_step="Send it again from the start."
                )
            return self._blob

    def _keep(self, total: int, keeper: Keeper) -> None:
        blob = Blob(sha256=self._sha256, size=total)
        promised = self.size == total and self._digest_of_all() == self._sha256
        if promised:
            keeper.adopt(self.path, blob)  # when that fails, all is still there for another try
            self._blob = blob
        self.over = True
        self.path.unlink(missing_ok=True)

    def _digest_of_all(self) -> str:
        while data := os.pread(self._file, _CHUNK, self._hashed):
            self._digest.update(data)
            self._hashed += len(data)
        return self._digest.hexdigest()

    def close(self) -> None:
        os.close(self._file)


def _write_all(file: int, data: memoryview, at: int) -> None:
    while data:
        written = os.pwrite(file, data, at)
        data, at = data[written:], at + written
