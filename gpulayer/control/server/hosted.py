"""The plane of a server: a database of its own, workers and callers that are known by when they were heard."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from gpulayer.control.server import fleet, following, journal, quota
from gpulayer.control.server.beats import Beats, Chore
from gpulayer.control.server.following import OrdersLook
from gpulayer.control.server.heard import Heard
from gpulayer.control.server.keeping import GONE_S, Keeper
from gpulayer.control.server.quota import Quota
from gpulayer.control.server.readers import Readers
from gpulayer.control.server.silence import Silence
from gpulayer.control.server.stored import StoredPlane
from gpulayer.control.server.ticks import past_deadlines
from gpulayer.control.server.waits import Waits
from gpulayer.control.store import jobs, log_chunks, renewals
from gpulayer.control.store.store import Store
from gpulayer.errors import HomeError, NotFound, PlaneError
from gpulayer.spec.base import new_id
from gpulayer.spec.logs import LogLine
from gpulayer.spec.news import Cursor, News
from gpulayer.spec.records import Orders, WorkerRecord
from gpulayer.spec.workers import WorkerInfo

LEASE_S = 90.0
DEADLINES_S = 0.25
COLLECTION_S = 60.0
QUEUE_S = 5.0
"""How often the queue is looked at without a reason: a server may have ended between a change and the plan it called for."""


class HostedPlane(StoredPlane):
    """A plane behind HTTP (see ``gpulayer.plane.Plane``); any number of threads may use it."""

    def __init__(
        self,
        store: Store,
        keeper: Keeper,
        secrets_key: Path,
        *,
        lease_s: float = LEASE_S,
        relook_s: float | None = None,
        log_quota: Quota | None = None,
    ) -> None:
        super().__init__(store, new_id("prc"))
        self.store = store
        self.keeper = keeper
        self._key_file = secrets_key
        self.lease_s = lease_s
        self.waits = Waits(relook_s)
        self.heard = Heard()
        self.silence = Silence(store, self.heard, lease_s)
        self.readers = Readers()
        self.lines_stored = 0
        self._quota = log_quota or Quota()
        self._full_logs: set[str] = set()
        self._counting = threading.Lock()
        self._beats = Beats(
            {
                "deadlines": (DEADLINES_S, self._past_deadlines),
                "leases": (self.silence.beat_s, self._look_for_the_silent),
                "queue": (QUEUE_S, self._schedule),
            }
        )
        self._slow: Beats | None = None
        store.listen(self.waits.wake)
        store.watch(journal.on_event)

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
        """Return the look that a worker repeats while it waits; by the first it is heard."""

        def on_heard(lost: bool) -> bool:
            self.heard.note(worker_id, self.store.now())
            if lost:
                fleet.revive(self.store, worker_id)
                journal.tell("worker returned", worker_id=worker_id)
                self._schedule()
            return lost

        return OrdersLook(self.store, worker_id, seen, lease_s=self.lease_s, incarnation=incarnation, on_heard=on_heard)

    def append_lines(self, job_id: str, lines: Sequence[LogLine]) -> None:
        """Store lines as far as the job's quota goes; raises ``LogFull`` when nothing of them was kept."""
        if not lines:
            return
        if job_id in self._full_logs:
            raise quota.full(job_id)
        with self.store.write() as db:
            jobs.must_exist(db, job_id)
            kept = quota.within(db, job_id, lines, self._quota)
            stored = log_chunks.append(db, job_id, kept)
        with self._counting:
            self.lines_stored += stored
            if not kept:
                self._full_logs.add(job_id)
        if not kept:
            raise quota.full(job_id)

    def _remove(self, job_id: str) -> None:
        super()._remove(job_id)
        self._full_logs.discard(job_id)

    # --- workers -----------------------------------------------------------------------------------------------------

    def register(self, info: WorkerInfo) -> WorkerRecord:
        record = super().register(info)
        machine = info.capabilities.hostname
        journal.tell("worker registered", worker_id=info.id, name=info.name, machine=machine, incarnation=info.incarnation)
        return record

    def unregister(self, worker_id: str) -> None:
        super().unregister(worker_id)
        journal.tell("worker left", worker_id=worker_id)

    def drain(self, worker_id: str) -> None:
        super().drain(worker_id)
        journal.tell("worker drained", worker_id=worker_id)

    def remove_worker(self, worker_id: str) -> None:
        super().remove_worker(worker_id)
        journal.tell("worker removed", worker_id=worker_id)

    # --- callers that are heard --------------------------------------------------------------------------------------

    def keep_caller(self, process_id: str, kind: str, pid: int, host: str) -> None:
        """Know a caller from now on, or hear that it is still there."""
        now = self.store.now()
        if self.heard.get(process_id) is None:
            with self.store.write() as db:
                renewals.announce(db, process_id, kind, pid, host, now)
        self.heard.note(process_id, now)

    def caller_left(self, process_id: str) -> None:
        """A caller ends with a word: what it left running goes on."""
        with self.store.write() as db:
            if not renewals.leave(db, process_id, self.store.now()):
                raise NotFound(f"There is no caller {process_id}.", process_id=process_id)
        self.heard.drop(process_id)

    # -----------------------------------------------------------------------------------------------------------------

    def start(self, chores: dict[str, Chore] | None = None) -> None:
        """Begin to do what is due without being asked, and ``chores`` that may take their time."""
        self._slow = Beats({"collect": (COLLECTION_S, self._collect), **(chores or {})})
        self._beats.start()
        self._slow.start()

    def _collect(self) -> None:
        now = self.store.now()
        self.keeper.collect_in_turn(now)
        with self.store.write() as db:
            renewals.forget_callers(db, now - GONE_S)

    def _past_deadlines(self) -> None:
        now = self.store.now()
        if past_deadlines(self.store, now, self.silence.hearing_since(now)):
            self._schedule()

    def _look_for_the_silent(self) -> None:
        if self.silence.look():
            self._schedule()

    @property
    def well(self) -> bool:
        """Whether what is due gets done: it doesn't while the database is away."""
        return self._beats.well

    def reaches_database(self) -> bool:
        try:
            with self.store.read() as db:
                jobs.first_deadline(db)
            return True
        except (HomeError, PlaneError):
            return False

    def __enter__(self) -> HostedPlane:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let all waiters go, write what was heard, and close the database."""
        self.waits.close()
        for each in (self._beats, self._slow):
            if each is not None:
                each.close()
        with suppress(HomeError, PlaneError):
            self.heard.write(self.store)
        self.store.close()
