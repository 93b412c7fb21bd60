"""Finds workers and callers that were silent for longer than they promised, and does what follows from it."""

from __future__ import annotations

from contextlib import suppress

from gpulayer.control.engine import leases, transitions
from gpulayer.control.engine.leases import Hearing
from gpulayer.control.engine.transitions import Step
from gpulayer.control.server import commands, journal
from gpulayer.control.server.heard import Heard
from gpulayer.control.store import renewals, workers
from gpulayer.control.store.store import Store
from gpulayer.errors import JobNotFound
from gpulayer.spec.records import JobRecord, Stop, TaskRecord
from gpulayer.spec.states import Reason

BEATS = 10
"""How often within a lease the silent are looked for."""
_KEPT_LEASES = 4


class Silence:
    """Looks for the silent, once in ``beat_s``. It counts only time in which it could hear (``engine.leases``)."""

    def __init__(self, store: Store, heard: Heard, lease_s: float) -> None:
        self._store = store
        self._heard = heard
        self._lease_s = lease_s
        self.beat_s = lease_s / BEATS
        self._hearing = Hearing.begin(store.now())
        self.late = 0
        """How many times a look came so late that everyone got a full period."""

    def hearing_since(self, now: float) -> float:
        """Return since when it could hear; that is now where the look before this is overdue."""
        return self._hearing.tick(now, self.beat_s).hearing_since

    def look(self) -> bool:
        """Lose workers and stop jobs whose lease has passed; returns whether the queue may look different now."""
        self._heard.write(self._store)  # a database that was away makes this look a late one, or none at all
        now = self._store.now()
        before, self._hearing = self._hearing, self._hearing.tick(now, self.beat_s)
        self.late += self._hearing.hearing_since != before.hearing_since
        self._heard.forget(now - _KEPT_LEASES * self._lease_s)
        lost = self._lose_workers(now)
        self._stop_jobs(now)
        return lost

    def _lose_workers(self, now: float) -> bool:
        with self._store.read() as db:
            written = renewals.of_workers(db)
        last = {name: self._last(name, at) for name, at in written.items()}
        for worker_id in leases.lost_workers(last, self._hearing.hearing_since, now, self._lease_s):
            with self._store.write() as db:
                lost = workers.lose(db, worker_id, written[worker_id])
            if lost:
                journal.tell("worker lost", worker_id=worker_id, lease_s=self._lease_s)
        with self._store.read() as db:
            given_up = renewals.live_tasks_of_lost(db)
        for task in given_up:
            _lose(self._store, task, now, self._lease_s)
        return bool(given_up)

    def _last(self, name: str, written: float) -> float:
        """Return when a worker was last heard; what another server heard may take two beats until it is written."""
        here = self._heard.get(name)
        return written + 2 * self.beat_s if here is None else max(here, written)

    def _stop_jobs(self, now: float) -> None:
        with self._store.read() as db:
            waiting = renewals.called_jobs(db)
            callers = renewals.of_callers(db, (record.owner for record in waiting if record.owner is not None))
        promised, last = dict[str, float](), dict[str, float]()
        for record in waiting:
            assert record.owner is not None
            assert record.spec.calls is not None
            caller = callers.get(record.owner)
            if caller is not None and caller.left:
                continue
            promised[record.id] = record.spec.calls.caller_lease_s
            heard = self._heard.get(record.owner) or (caller and caller.heard_at)
            last[record.id] = max(heard or 0.0, record.created_at)
        for job_id in leases.callers_gone(last, self._hearing.hearing_since, now, promised):
            _stop(self._store, job_id, now)


def _lose(store: Store, task: TaskRecord, now: float, lease_s: float) -> None:
    """Give a task up. Its devices stay leased: only its worker knows when its processes are gone."""

    def decide(record: JobRecord) -> Step:
        if record.attempt != task.attempt:
            return Step(record)
        fate = f"was lost: it was not heard from for {lease_s:g} s"
        return transitions.lose_tasks(record, (task.node_rank,), Reason.WORKER_LOST, now, fate=fate)

    with suppress(JobNotFound):
        commands.change(store, task.job_id, decide)


def _stop(store: Store, job_id: str, now: float) -> None:
    def decide(record: JobRecord) -> Step:
        if record.caller_ended or record.stop is not None:
            return Step(record)
        return transitions.request_stop(record, Stop(reason=Reason.CALLER_GONE, grace_s=record.spec.grace_s, at=now), now)

    with suppress(JobNotFound):
        commands.change(store, job_id, decide)
