"""The blobs of a plane: stored under their hash, noted in the database, and collected when nothing refers to them."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from gpulayer.artifacts.store import BlobStore
from gpulayer.control.store import blobs, housekeeping, processes, workers
from gpulayer.control.store.store import Store
from gpulayer.errors import PlaneBusy
from gpulayer.spec.files import Blob

_log = logging.getLogger("gpulayer.server")

UNTOUCHED_S = 24 * 3600.0
"""Between a blob's last mention and its collection, when nothing refers to it: time to submit the job that will."""
RELEASED_S = 120.0
"""The same for the files of a checkpoint that the job deleted, or of a job that was removed."""
COLLECT_EVERY_S = 300.0
GONE_S = 7 * 24 * 3600.0
"""How long processes and workers that are gone stay on record."""
GIVEN_UP_S = 30.0
"""A deletion that takes longer is one whose process was killed."""
_LOOK_S = 0.02
_FRESH_S = 30.0
"""A blob touched so recently isn't touched again for every question."""


class Keeper:
    """Puts blobs and database together: a blob is there when its row says so."""

    def __init__(self, store: Store, files: BlobStore) -> None:
        self._store = store
        self._files = files

    def has(self, sha256: str) -> bool:
        """Say whether a blob is stored; the answer "yes" holds for ``RELEASED_S`` at least."""
        with self._store.read() as db:
            touched = blobs.touched_at(db, sha256)
        if touched is None or not self._files.has(sha256):
            return False
        if touched < self._store.now() - _FRESH_S:
            with self._store.write() as db:
                return blobs.touch(db, sha256, self._store.now())
        return True

    def put(self, source: Path | bytes) -> Blob:
        while True:
            blob = self._files.put(source)
            if self._keep(blob):
                return blob

    def adopt(self, source: Path, blob: Blob) -> None:
        """Keep a file that is known to be a blob, without copying it where that can be; nobody writes to it any more."""
        self._files.adopt(source, blob)
        while not self._keep(blob):
            self._files.adopt(source, blob)

    def _keep(self, blob: Blob) -> bool:
        """Note a blob that was just stored; False when it was deleted since, and is no more from here on."""
        with self._store.write() as db:
            kept = blobs.keep(db, blob, self._store.now())
        if not kept:
            self._see_deleted(blob.sha256)
            return False
        return self._files.has(blob.sha256)

    def _see_deleted(self, sha256: str) -> None:
        """Wait until a blob that is being deleted is gone; delete it when whoever began was killed."""
        while True:
            with self._store.read() as db:
                since = blobs.condemned_at(db, sha256)
            if since is None:
                return
            if since < self._store.now() - GIVEN_UP_S:
                self._delete(sha256, 0.0)
            time.sleep(_LOOK_S)

    def open(self, sha256: str) -> BinaryIO:
        return self._files.open(sha256)

    def fetch(self, sha256: str, to: Path) -> None:
        self._files.fetch(sha256, to)

    def collect_in_turn(self, now: float) -> None:
        """Collect, and forget who is long gone, if no process has done so for a while."""
        with self._store.write() as db:
            mine = housekeeping.take_turn(db, "collect", COLLECT_EVERY_S, now)
            if mine:
                processes.forget_ended(db, now - GONE_S)
                workers.forget_gone(db, now - GONE_S)
        if mine:
            self.collect(now)

    def collect(self, now: float, released: Iterable[str] = ()) -> None:
        """Delete what nothing refers to and nobody has mentioned for long; for ``released`` blobs, a short while is long."""
        with self._store.read() as db:
            found = blobs.unreferenced(db, now - UNTOUCHED_S, now - RELEASED_S, set(released))
            found += blobs.half_deleted(db, now - GIVEN_UP_S)
        try:
            for sha256 in found:
                self._delete(sha256, now - RELEASED_S)
        except PlaneBusy as trouble:
            _log.warning("collection goes on later: %s", trouble.sentence)

    def _delete(self, sha256: str, untouched_since: float) -> None:
        # The bytes may be far away, so they go outside of a transaction: who wants to keep the blob meanwhile finds it
        # condemned, waits, and stores it anew.
        now = self._store.now()
        with self._store.write() as db:
            if not blobs.condemn(db, sha256, now, untouched_since=untouched_since, given_up_since=now - GIVEN_UP_S):
                return
        self._files.delete(sha256)
        with self._store.write() as db:
            blobs.forget_condemned(db, sha256, now)
