"""A plane's database, for the histories: what ``tests.control.engine.keeping`` does in memory, by the code that planes use."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle

from sqlalchemy import Connection

from gpulayer.control.engine import transitions
from gpulayer.control.engine.moves import Step
from gpulayer.control.server import commands, following, scheduling
from gpulayer.control.store import jobs, workers
from gpulayer.control.store.store import Store
from gpulayer.spec.events import Event
from gpulayer.spec.records import JobRecord, Order, TaskRecord, WorkerRecord
from gpulayer.spec.workers import WorkerInfo
from tests.control.engine.keeping import Decision, Key


class InDatabase:
    """A plane's database through several stores in turn, as several processes would have it open."""

    def __init__(self, open_one: Callable[[], Store], *, processes: int) -> None:
        self.meanwhile: Callable[[], None] | None = None
        self._open_one = open_one
        self._processes = processes
        self._open()

    def _open(self) -> None:
        self._stores = [self._open_one() for _ in range(self._processes)]
        self._turn = cycle(self._stores)

    def close(self) -> None:
        for store in self._stores:
            store.close()

    def reopen(self) -> None:
        self.meanwhile = None
        self.close()
        self._open()

    def add(self, record: JobRecord, now: float) -> None:
        step = transitions.submitted(record, now)
        with next(self._turn).write() as db:
            jobs.add(db, step.record, step.events, deadline=transitions.next_deadline(step.record))

    def jobs(self) -> list[JobRecord]:
        with next(self._turn).read() as db:
            return jobs.newest(db, 1000)[::-1]

    def job(self, job_id: str) -> JobRecord:
        with next(self._turn).read() as db:
            return jobs.load(db, job_id)

    def events(self, job_id: str) -> list[Event]:
        with next(self._turn).read() as db:
            return list(jobs.events_after(db, job_id, 0))

    def held(self) -> list[TaskRecord]:
        with next(self._turn).read() as db:
            return jobs.held_tasks(db)

    def change(self, job_id: str, decide: Decision, release: Key | None = None) -> None:
        def slowly(record: JobRecord) -> Step:
            step = decide(record)
            self._between()
            return step

        def free(db: Connection, step: Step) -> Step:
            assert release is not None
            jobs.release(db, *release)
            return step

        commands.change(next(self._turn), job_id, slowly, None if release is None else free)

    def _between(self) -> None:
        act, self.meanwhile = self.meanwhile, None
        if act is not None:
            act()

    def schedule(self, now: float) -> None:
        store = next(self._turn)

        def slowly() -> float:
            self._between()
            return now

        store.now = slowly  # type: ignore[method-assign]  # it is asked between looking and planning
        scheduling.schedule(store)

    def orders(self, worker_id: str) -> list[Order]:
        look = following.OrdersLook(next(self._turn), worker_id, 0, lease_s=90.0)
        look()
        return list(look.found.orders)

    def workers(self) -> list[WorkerRecord]:
        with next(self._turn).read() as db:
            return workers.all_in(db, ("online", "draining", "lost", "gone"))

    def register(self, info: WorkerInfo, now: float) -> None:
        with next(self._turn).write() as db:
            workers.register(db, info, now)

    def set_state(self, worker_id: str, state: str) -> None:
        with next(self._turn).write() as db:
            workers.set_state(db, worker_id, state)

    def heard(self, worker_id: str, now: float) -> None:
        with next(self._turn).write() as db:
            workers.heard(db, worker_id, now)

    def forget(self, worker_id: str) -> None:
        with next(self._turn).write() as db:
            workers.forget(db, worker_id)
