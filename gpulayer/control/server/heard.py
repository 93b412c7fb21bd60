"""What a server has heard of workers and callers, before it is written down: a renewal costs no transaction."""

from __future__ import annotations

import threading

from gpulayer.control.store import renewals
from gpulayer.control.store.store import Store


class Heard:
    """When each was last heard by this server."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._at: dict[str, float] = {}
        self._unwritten: dict[str, float] = {}

    def note(self, name: str, now: float) -> None:
        with self._lock:
            self._at[name] = self._unwritten[name] = now

    def get(self, name: str) -> float | None:
        """Return when this server last heard someone; None for one that it doesn't know."""
        with self._lock:
            return self._at.get(name)

    def drop(self, name: str) -> None:
        """Forget one who left with a word."""
        with self._lock:
            self._at.pop(name, None)
            self._unwritten.pop(name, None)

    def forget(self, before: float) -> None:
        """Forget those who were last heard before a time."""
        with self._lock:
            self._at = {name: at for name, at in self._at.items() if at >= before}

    def write(self, store: Store) -> None:
        """Write what was heard since the last time."""
        with self._lock:
            batch, self._unwritten = self._unwritten, {}
        if not batch:
            return
        try:
            with store.write() as db:
                renewals.write(db, batch)
        except BaseException:
            with self._lock:
                self._unwritten = {**batch, **self._unwritten}
            raise
