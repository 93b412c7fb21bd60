"""The plane of a server: a database of its own, workers and callers that are known by when they were heard."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gpulayer.control.server import following
from gpulayer.control.server.following import OrdersLook
from gpulayer.control.server.keeping import Keeper
from gpulayer.control.server.stored import StoredPlane
from gpulayer.control.server.waits import Waits
from gpulayer.control.store.store import Store
from gpulayer.spec.base import new_id
from gpulayer.spec.news import Cursor, News
from gpulayer.spec.records import Orders

LEASE_S = 90.0


class HostedPlane(StoredPlane):
    """A plane behind HTTP (see ``gpulayer.plane.Plane``); any number of threads may use it."""

    def __init__(
        self, store: Store, keeper: Keeper, secrets_key: Path, *, lease_s: float = LEASE_S, relook_s: float | None = None
    ) -> None:
        super().__init__(store, new_id("prc"))
        self.store = store
        self.keeper = keeper
        self._key_file = secrets_key
        self.lease_s = lease_s
        self.waits = Waits(relook_s)
        store.listen(self.waits.wake)

    @property
    def _keeper(self) -> Keeper:
        return self.keeper

    @property
    def _secrets_key(self) -> Path:
        return self._key_file

    def tick(self) -> None:
        """A server's ticks have a thread of their own."""

    def _notify(self) -> None:
        """The store tells the waiters."""

    def news(self, job_id: str, cursor: Cursor, *, timeout_s: float = 0.0, lines: bool = True) -> News:
        job_id = self.full_id(job_id)
        look = self.look_for_news(job_id, cursor, lines=lines)
        return self.waits.wait(job_id, look, timeout_s) or self.news_now(job_id, cursor, lines=lines)

    def look_for_news(self, job_id: str, cursor: Cursor, *, lines: bool) -> Callable[[], News | None]:
        """Return the look that a waiter for news of a job (by its full id) repeats."""
        return lambda: following.news(self.store, job_id, cursor, lines=lines)

    def news_now(self, job_id: str, cursor: Cursor, *, lines: bool) -> News:
        return following.news_now(self.store, job_id, cursor, lines=lines)

    def orders(self, worker_id: str, *, seen: int = 0, timeout_s: float = 0.0, incarnation: str = "") -> Orders:
        look = self.look_for_orders(worker_id, seen, incarnation)
        return self.waits.wait(worker_id, look, timeout_s) or look.found

    def look_for_orders(self, worker_id: str, seen: int, incarnation: str) -> OrdersLook:
        """Note that a worker was heard; return the look that it repeats while it waits."""
        return OrdersLook(self.store, worker_id, seen, lease_s=self.lease_s, incarnation=incarnation)

    def close(self) -> None:
        """Let all waiters go and close the database."""
        self.waits.close()
        self.store.close()
