"""Applies the engine's plan to the queue."""

from __future__ import annotations

import threading

from sqlalchemy import Connection

from gpulayer.control.engine import placement, transitions
from gpulayer.control.engine.transitions import Step
from gpulayer.control.store import jobs, workers
from gpulayer.control.store.store import Store
from gpulayer.spec.records import JobRecord, PlacementChoice, Plan, Snapshot, Waiting, WorkerRecord


class Scheduler:
    """Schedules for all threads of a process, one at a time: those that ask while it plans share the next plan."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._asked = 0
        self._served = 0
        self._count = threading.Lock()
        self._turn = threading.Lock()

    def run(self) -> None:
        """Return when a plan has been applied that was made of what is stored now."""
        self._store.own_process()
        with self._count:
            self._asked += 1
            mine = self._asked
        with self._turn:
            if self._served >= mine:
                return
            serving = self._asked
            with self._store.alone("schedule"):
                schedule(self._store)
            self._served = serving


def schedule(store: Store) -> None:
    """Place what can be placed, note why the rest waits, and refuse what can never run."""
    while True:
        with store.read() as db:
            if not jobs.queued(db):  # the usual case: spares reading a large fleet
                return
            looked = snapshot(db)
        now = store.now()
        if _apply(store, looked, placement.plan(looked, now), now):
            return


def snapshot(db: Connection) -> Snapshot:
    return Snapshot(queued=tuple(jobs.queued(db)), workers=tuple(workers.for_placement(db)))


def _apply(store: Store, looked: Snapshot, plan: Plan, now: float) -> bool:
    """Write a plan as far as it says something new; False when another process took a worker or job meanwhile."""
    queued = {record.id: record for record in looked.queued}
    steps = [(queued[each.job_id], _placed(queued[each.job_id], each, looked, now)) for each in plan.placements]
    steps += [(queued[each.job_id], _not_placed(queued[each.job_id], each, now)) for each in plan.waiting]
    steps = [(old, step) for old, step in steps if step.record is not old and step.record != old]
    if not steps:
        return True
    chosen = {worker_id for choice in plan.placements for worker_id in choice.workers}
    try:
        with store.write() as db:
            if not (_still_so(db, looked, chosen) and _still_free(db, looked, plan)):
                return False
            for old, step in steps:
                jobs.save(db, old, step.record, step.events, deadline=transitions.next_deadline(step.record))
    except jobs.Conflict:
        return False
    return True


def _still_so(db: Connection, looked: Snapshot, chosen: set[str]) -> bool:
    """Whether the chosen workers are what the plan took them for."""
    if not chosen:
        return True
    before = [_unheard(record) for record in looked.workers if record.info.id in chosen]
    now = [_unheard(record) for record in workers.some(db, chosen)]
    return sorted(now, key=_id) == sorted(before, key=_id)


def _still_free(db: Connection, looked: Snapshot, plan: Plan) -> bool:
    """Whether nobody holds the plan's devices: another worker of the machine may have been given them meanwhile."""
    machines = {record.info.id: record.info.capabilities.machine for record in looked.workers}
    wanted = {
        (machines[worker_id], device.uuid)
        for choice in plan.placements
        for worker_id, devices in zip(choice.workers, choice.devices, strict=True)
        for device in devices
    }
    return not wanted or wanted.isdisjoint((task.machine, each.uuid) for task in jobs.held_tasks(db) for each in task.devices)


def _unheard(record: WorkerRecord) -> WorkerRecord:
    """That a worker was heard meanwhile changes no plan, and in a large fleet some always were."""
    return record.model_copy(update={"heard_at": 0.0})


def _id(record: WorkerRecord) -> str:
    return record.info.id


def _placed(record: JobRecord, choice: PlacementChoice, looked: Snapshot, now: float) -> Step:
    return transitions.place(record, choice, looked.workers, now)


def _not_placed(record: JobRecord, waiting: Waiting, now: float) -> Step:
    """A job's further attempt waits even where its first would have been refused: its worker may come back."""
    if waiting.never and record.spec.on_unschedulable == "fail" and record.attempt == 0:
        return transitions.refuse(record, waiting, now)
    return transitions.wait(record, waiting, now)
