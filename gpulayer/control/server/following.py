"""What followers and workers wait for."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator

from sqlalchemy import Connection

from gpulayer.control.engine import orders
from gpulayer.control.store import jobs, log_chunks, workers
from gpulayer.control.store.store import Store
from gpulayer.errors import JobNotFound
from gpulayer.spec.logs import LogLine
from gpulayer.spec.news import Cursor, News
from gpulayer.spec.records import Orders


def news(store: Store, job_id: str, cursor: Cursor, *, lines: bool) -> News | None:
    """Return what is new of a job; None when there is nothing."""
    with store.read() as db:
        now = jobs.version(db, job_id)
        if now is None:
            raise JobNotFound(f"There is no job {job_id}.", job_id=job_id)
        newest = log_chunks.newest_id(db, job_id) if lines else cursor.lines
        if newest <= cursor.lines and now.version == cursor.version and now.events <= cursor.event:
            return None
        return _news(db, job_id, cursor, newest)


def news_now(store: Store, job_id: str, cursor: Cursor, *, lines: bool) -> News:
    """Return how a job stands, whether or not that is new."""
    with store.read() as db:
        return _news(db, job_id, cursor, log_chunks.newest_id(db, job_id) if lines else cursor.lines)


def _news(db: Connection, job_id: str, cursor: Cursor, newest: int) -> News:
    events = jobs.events_after(db, job_id, cursor.event)
    found, last = log_chunks.after(db, job_id, cursor.lines) if newest > cursor.lines else ((), cursor.lines)
    record = jobs.load(db, job_id)
    seen = Cursor(event=events[-1].seq if events else cursor.event, lines=last, version=record.version)
    return News(job=record, events=events, lines=found, cursor=seen, more=last < newest)


class OrdersLook:
    """Looks whether a worker's orders differ from the version it has; reads jobs only when one was written.

    With a ``lease_s``, a worker that was lost is not fenced, but another ``incarnation`` of it is. The first look calls
    ``on_heard`` with whether the worker was lost, unless it is fenced; that returns whether it no longer is.
    """

    def __init__(
        self,
        store: Store,
        worker_id: str,
        seen: int,
        *,
        lease_s: float | None = None,
        incarnation: str = "",
        on_heard: Callable[[bool], bool] | None = None,
    ) -> None:
        self._store = store
        self._worker_id = worker_id
        self._seen = seen
        self._ends_with = ("gone", "lost") if lease_s is None else ("gone",)
        self._lease = {} if lease_s is None else {"lease_s": lease_s}
        self._incarnation = incarnation
        self._basis: object = None
        self.found = Orders(version=0)
        self._on_heard = on_heard

    def __call__(self) -> Orders | None:
        with self._store.read() as db:
            standing = workers.standing(db, self._worker_id)
            state = "gone" if standing is None or self._is_older_than(standing.incarnation) else standing.state
            lost = jobs.lost_of_worker(db, self._worker_id)
            basis = (state, lost, jobs.versions_of_worker(db, self._worker_id))
            records = None if basis == self._basis else jobs.of_worker(db, self._worker_id)
        on_heard, self._on_heard = self._on_heard, None  # a worker that is lost while it waits is not heard by waiting on
        if on_heard is not None and state != "gone" and on_heard(state == "lost"):
            return self()
        if records is None:
            return None
        self._basis = basis
        given = [order for record in records for order in orders.orders_for(record, self._worker_id)]
        given += [orders.order_of_lost(task, spec) for task, spec in lost]
        ends = {"fenced": state in self._ends_with, "removed": standing is None}
        asked = Orders(version=0, orders=tuple(given), draining=state == "draining", **ends, **self._lease)
        self.found = asked.model_copy(update={"version": _version(asked)})
        return self.found if self.found.version != self._seen else None

    def _is_older_than(self, incarnation: str) -> bool:
        return bool(self._incarnation) and incarnation not in ("", self._incarnation)


def _version(asked: Orders) -> int:
    """Number orders by their content: the same orders are the same version, whoever asks; never 0, which nobody has seen."""
    digest = hashlib.blake2b(asked.model_dump_json().encode(), digest_size=7).digest()
    return int.from_bytes(digest) + 1


def stored_lines(store: Store, job_id: str, *, rank: int | None, tail: int | None) -> Iterator[LogLine]:
    """Give the stored lines of a job; of one ``rank``, or the last ``tail`` of them. One chunk of them is held at a time."""
    with store.read() as db:
        newest = log_chunks.newest_id(db, job_id)
    last, passed_over = (0, 0) if tail is None else _before_tail(store, job_id, newest, rank, tail)
    while last < newest:
        with store.read() as db:
            found = log_chunks.next_id(db, job_id, last)
            lines = [] if found is None else log_chunks.chunk(db, job_id, found)
        if found is None:
            return
        last = found
        for line in lines:
            if rank is not None and line.rank != rank:
                continue
            if passed_over:
                passed_over -= 1
            else:
                yield line


def _before_tail(store: Store, job_id: str, newest: int, rank: int | None, tail: int) -> tuple[int, int]:
    """Return the id of the chunk before those that the tail is in, and how many lines of these come before it."""
    counted, at = 0, newest + 1
    while counted < tail:
        with store.read() as db:
            before = log_chunks.id_before(db, job_id, at)
            if before is None:
                break
            at = before
            counted += log_chunks.count(db, at) if rank is None else _count_of_rank(db, job_id, at, rank)
    return at - 1, max(0, counted - tail)


def _count_of_rank(db: Connection, job_id: str, chunk_id: int, rank: int) -> int:
    return sum(line.rank == rank for line in log_chunks.chunk(db, job_id, chunk_id))
