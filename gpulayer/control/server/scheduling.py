"""Applies the engine's plan to the queue, in one short transaction."""

from __future__ import annotations

from sqlalchemy import Connection

from gpulayer.control.engine import placement, transitions
from gpulayer.control.engine.transitions import Step
from gpulayer.control.store import jobs, workers
from gpulayer.control.store.store import Store
from gpulayer.spec.records import JobRecord, Snapshot, Waiting


def schedule(store: Store, now: float) -> None:
    """Place what can be placed, note why the rest waits, and refuse what can never run."""
    with store.read() as db:
        if not jobs.queued(db):
            return
    with store.write() as db:  # planning inside it: nobody takes a worker between the look and the placement
        looked = snapshot(db)
        plan = placement.plan(looked, now)
        queued = {record.id: record for record in looked.queued}
        for choice in plan.placements:
            old = queued[choice.job_id]
            _save(db, old, transitions.place(old, choice, looked.workers, now))
        for waiting in plan.waiting:
            old = queued[waiting.job_id]
            _save(db, old, _not_placed(old, waiting, now))


def snapshot(db: Connection) -> Snapshot:
    return Snapshot(queued=tuple(jobs.queued(db)), workers=tuple(workers.all_in(db, workers.SERVING)))


def _not_placed(record: JobRecord, waiting: Waiting, now: float) -> Step:
    """A job's further attempt waits even where its first would have been refused: its worker may come back."""
    if waiting.never and record.spec.on_unschedulable == "fail" and record.attempt == 0:
        return transitions.refuse(record, waiting, now)
    return transitions.wait(record, waiting, now)


def _save(db: Connection, old: JobRecord, step: Step) -> None:
    if step.record != old:
        jobs.save(db, old, step.record, step.events, deadline=transitions.next_deadline(step.record))
