"""Tokens that were looked up just now, so that a worker's every question doesn't ask the database who it is."""

from __future__ import annotations

import threading
import time
from weakref import WeakKeyDictionary

from gpulayer.control.store.store import Store
from gpulayer.control.store.tokens import Kept

CACHE_S = 5.0
"""For so long another server may not know that a token was revoked here."""
_MOST = 50_000

_of_stores: WeakKeyDictionary[Store, Known] = WeakKeyDictionary()
_lock = threading.Lock()


def of(store: Store) -> Known:
    """Return what is known of a store's tokens."""
    with _lock:
        return _of_stores.setdefault(store, Known())


class Known:
    """Tokens by their hash, each for ``CACHE_S``. Unknown ones are never kept: anyone can make those up."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[str, tuple[Kept, float]] = {}
        self.generation = 0
        """Counts the times that all was forgotten: what was read before such a time is not kept after it."""

    def get(self, hash: str) -> Kept | None:
        with self._lock:
            found, until = self._found.get(hash, (None, 0.0))
        return found if time.monotonic() < until else None

    def keep(self, kept: Kept, generation: int) -> None:
        """Keep a token that was read when ``generation`` was current."""
        with self._lock:
            if generation != self.generation:
                return
            if len(self._found) >= _MOST:
                self._found.clear()
            self._found[kept.hash] = (kept, time.monotonic() + CACHE_S)

    def forget(self) -> None:
        """Forget all: one of them has changed."""
        with self._lock:
            self.generation += 1
            self._found.clear()
