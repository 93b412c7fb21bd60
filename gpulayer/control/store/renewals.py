"""Workers and callers of a hosted plane, as far as they were heard: written in batches, read by who looks for the silent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, delete, or_, select, update

from gpulayer.control.store import jobs as job_rows
from gpulayer.control.store import values
from gpulayer.control.store.replace import replace
from gpulayer.control.store.tables import jobs, processes, tasks, workers
from gpulayer.control.store.workers import SERVING
from gpulayer.spec.records import JobRecord, TaskRecord
from gpulayer.spec.states import JobState, TaskState

_LIVING_JOB = tuple(state.value for state in JobState if not state.terminal)
_LIVING_TASK = tuple(state.value for state in TaskState if not state.terminal)


def write(db: Connection, heard: Mapping[str, float]) -> None:
    """Note when workers and callers were last heard, all in one statement each; nobody waits for that.

    Always in the same order, so that two servers that write at once can't lock each other out.
    """
    for table, kind in ((workers, "wkr-"), (processes, "prc-")):
        rows = [{"who": name, "then": at} for name, at in sorted(heard.items()) if name.startswith(kind)]
        if rows:
            older = or_(table.c.heard_at.is_(None), table.c.heard_at < bindparam("then"))
            db.execute(update(table).where(table.c.id == bindparam("who"), older).values(heard_at=bindparam("then")), rows)


def of_workers(db: Connection) -> dict[str, float]:
    """Return when each serving worker was last heard."""
    query = select(workers.c.id, workers.c.heard_at).where(workers.c.state.in_(SERVING))
    return {row.id: row.heard_at for row in db.execute(query)}


class Caller(NamedTuple):
    """A caller as it stands: ``heard_at`` is its last word that was written, ``left`` its farewell."""

    heard_at: float | None
    left: bool


def of_callers(db: Connection, wanted: Iterable[str]) -> dict[str, Caller]:
    """Return how callers stand, by their ids; nothing of one that never said who it is."""
    query = select(processes.c.id, processes.c.heard_at, processes.c.left).where(processes.c.id.in_(set(wanted)))
    return {row.id: Caller(row.heard_at, row.left) for row in db.execute(query)}


def called_jobs(db: Connection) -> list[JobRecord]:
    """Return the unended jobs that wait for a caller's word."""
    calls = jobs.c.spec.contains('"calls":{', autoescape=True)  # spares reading those that surely wait for none
    query = select(jobs.c.id).where(jobs.c.state.in_(_LIVING_JOB), jobs.c.owner.is_not(None), calls)
    found = [job_rows.load(db, job_id) for job_id in db.execute(query.order_by(jobs.c.id)).scalars()]
    return [record for record in found if record.spec.calls is not None and not record.caller_ended and record.stop is None]


def live_tasks_of_lost(db: Connection) -> list[TaskRecord]:
    """Return the tasks that have not ended and whose worker is lost or gone."""
    query = select(tasks.c.record).join(workers, workers.c.id == tasks.c.worker_id)
    query = query.where(tasks.c.held.is_(True), tasks.c.state.in_(_LIVING_TASK), workers.c.state.in_(("lost", "gone")))
    return [values.task(text) for text in db.execute(query).scalars()]


def announce(db: Connection, process_id: str, kind: str, pid: int, host: str, now: float) -> None:
    """Write a caller down; one that left and comes again has not left."""
    values = {"kind": kind, "pid": pid, "host": host, "left": False, "ended_at": None, "heard_at": now}
    replace(db, processes, {"id": process_id}, values, first={"opened_at": now})


def leave(db: Connection, process_id: str, now: float) -> bool:
    """Note a caller's farewell; False when there is no such caller."""
    left = update(processes).where(processes.c.id == process_id).values(left=True, ended_at=now)
    return bool(db.execute(left).rowcount)


def forget_callers(db: Connection, before: float) -> None:
    """Delete the callers that were last heard before a time."""
    db.execute(delete(processes).where(processes.c.heard_at < before))
