"""Jobs and their tasks: written by compare-and-set on the version, together with the events that tell of the move."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, delete, func, insert, select, update

from gpulayer.control.store import tables, touched, values
from gpulayer.control.store.conflict import Conflict as Conflict
from gpulayer.control.store.replace import insert_missing, replace
from gpulayer.control.store.tables import events as events_table
from gpulayer.control.store.tables import jobs, tasks, workers
from gpulayer.errors import AmbiguousId, JobNotFound
from gpulayer.spec.events import Event
from gpulayer.spec.job import Job
from gpulayer.spec.records import JobRecord, TaskRecord
from gpulayer.spec.states import JobState, Reason, TaskState

_LIVING = tuple(state.value for state in JobState if not state.terminal)
_COLUMNS = (jobs.c.id, jobs.c.spec, jobs.c.rest, jobs.c.version, jobs.c.nodes)


def add(
    db: Connection, record: JobRecord, events: Iterable[Event], *, key: str = "", deadline: float | None = None
) -> JobRecord:
    """Insert a new job; with a ``key`` that was used before, return that job as it is."""
    if (known := _with_key(db, key)) is not None:
        return load(db, known)
    record = record.model_copy(update={"version": 1})
    row = {
        "id": record.id,
        "key": key or None,
        "name": record.spec.name,
        "owner": record.owner,
        "created_at": record.created_at,
        "spec": record.spec.model_dump_json(),
        **_moving(record, deadline),
    }
    while not insert_missing(db, jobs, row, "key"):  # someone else submitted it just now, and may have removed it again
        if (known := _with_key(db, key)) is not None:
            return load(db, known)
    _append(db, events)
    touched.note(db, record.id, touched.QUEUE)
    return record


def _with_key(db: Connection, key: str) -> str | None:
    """Return the job that was submitted with a key, which is then not forgotten before this transaction ends."""
    query = select(jobs.c.id).where(jobs.c.key == key).with_for_update(read=True, key_share=True)
    return db.execute(query).scalar() if key else None


def lock(db: Connection, job_id: str) -> None:
    """Let nobody else write the job before this transaction ends: for what is written of it before ``save``."""
    db.execute(select(jobs.c.id).where(jobs.c.id == job_id).with_for_update(key_share=True))


def save(
    db: Connection, old: JobRecord, new: JobRecord, events: Iterable[Event], *, deadline: float | None = None
) -> JobRecord:
    """Write ``new`` where ``old`` is still what is stored, else raise ``Conflict``; returns it with its new version."""
    new = new.model_copy(update={"version": old.version + 1})
    where = (jobs.c.id == old.id, jobs.c.version == old.version)
    if not db.execute(update(jobs).where(*where).values(**_moving(new, deadline))).rowcount:
        raise Conflict(old.id)
    for task in _moved(old.tasks, new.tasks):
        _save_task(db, task, max(old.world_size, new.world_size))
    _append(db, events)
    touched.note(db, old.id, *(task.worker_id for task in (*old.tasks, *new.tasks)))
    if [task.state for task in new.tasks] != [task.state for task in old.tasks] or new.state is not old.state:
        touched.note(db, touched.QUEUE)
    return new


def _moving(record: JobRecord, deadline: float | None) -> dict[str, object]:
    return {
        "state": record.state.value,
        "version": record.version,
        "events": record.events,
        "nodes": len(record.tasks),
        "deadline": None if record.state.terminal else deadline,
        "rest": record.model_dump_json(exclude={"id", "spec", "tasks", "version"}),
    }


def _moved(old: Sequence[TaskRecord], new: Sequence[TaskRecord]) -> list[TaskRecord]:
    """Return the tasks to write: those that changed, and as lost those that a new attempt left behind unended."""
    kept = {(task.attempt, task.node_rank) for task in new}
    left = [task for task in old if (task.attempt, task.node_rank) not in kept and not task.state.terminal]
    return [task for task in new if task not in old] + [
        task.model_copy(update={"state": TaskState.LOST, "reason": Reason.WORKER_LOST}) for task in left
    ]


def _save_task(db: Connection, task: TaskRecord, world_size: int) -> None:
    columns: dict[str, Any] = {
        "worker_id": task.worker_id,
        "state": task.state.value,
        "assigned_at": task.assigned_at,
        "world_size": world_size,
        "record": task.model_dump_json(),
    }
    if task.state is not TaskState.LOST:  # of a lost task, processes may live until ``release`` says otherwise
        columns["held"] = not task.state.terminal
    replace(db, tasks, {"job_id": task.job_id, "attempt": task.attempt, "node_rank": task.node_rank}, columns)


def release(db: Connection, job_id: str, attempt: int, node_rank: int) -> None:
    """Note that no process of a task lives, whatever its state, so that its devices are free."""
    lock(db, job_id)
    where = (tasks.c.job_id == job_id, tasks.c.attempt == attempt, tasks.c.node_rank == node_rank)
    freed = update(tasks).where(*where, tasks.c.held.is_(True)).values(held=False).returning(tasks.c.worker_id)
    for worker_id in db.execute(freed).scalars().all():
        touched.note(db, job_id, worker_id, touched.QUEUE)


def _append(db: Connection, events: Iterable[Event]) -> None:
    events = tuple(events)
    touched.tell(db, events)
    rows = [{**event.model_dump(exclude={"facts"}), "facts": json.dumps(event.facts)} for event in events]
    if rows:
        db.execute(insert(events_table), rows)


def load(db: Connection, job_id: str) -> JobRecord:
    """Return a job by its full id."""
    found = _records(db, db.execute(select(*_COLUMNS).where(jobs.c.id == job_id)).all())
    if not found:
        raise JobNotFound(f"There is no job {job_id}.", job_id=job_id)
    return found[0]


def full_id(db: Connection, prefix: str) -> str:
    """Return the one id that begins with ``prefix`` (with or without ``job-``)."""
    wanted = prefix if prefix.startswith("job-") else f"job-{prefix}"
    if db.execute(select(jobs.c.id).where(jobs.c.id == wanted)).first():
        return wanted
    query = select(jobs.c.id).where(jobs.c.id.startswith(wanted, autoescape=True))
    found = db.execute(query.order_by(jobs.c.id).limit(5)).scalars().all()
    if len(found) == 1:
        return str(found[0])
    if found:
        raise AmbiguousId(f"{prefix} could be {', '.join(found)}.", found=list(found))
    raise JobNotFound(f"There is no job {prefix}.", job_id=prefix)


def newest(db: Connection, limit: int) -> list[JobRecord]:
    query = select(*_COLUMNS).order_by(jobs.c.created_at.desc(), jobs.c.id).limit(limit)
    return _records(db, db.execute(query).all())


def queued(db: Connection) -> list[JobRecord]:
    query = select(*_COLUMNS).where(jobs.c.state == JobState.QUEUED.value).order_by(jobs.c.created_at, jobs.c.id)
    return _records(db, db.execute(query).all())


def of_worker(db: Connection, worker_id: str) -> list[JobRecord]:
    """Return the unended jobs whose latest attempt has a task on the worker, oldest first."""
    query = select(*_COLUMNS).where(jobs.c.id.in_(_ids_of_worker(worker_id))).order_by(jobs.c.created_at, jobs.c.id)
    return _records(db, db.execute(query).all())


def versions_of_worker(db: Connection, worker_id: str) -> list[tuple[str, int]]:
    """Return what ``of_worker`` would read, as ids and versions."""
    query = select(jobs.c.id, jobs.c.version).where(jobs.c.id.in_(_ids_of_worker(worker_id))).order_by(jobs.c.id)
    return [(row.id, row.version) for row in db.execute(query)]


def lost_of_worker(db: Connection, worker_id: str) -> list[tuple[TaskRecord, Job]]:
    """Return the tasks of a worker that were given up while processes of them may live, each with its job."""
    query = select(tasks.c.record, jobs.c.spec).join(jobs, jobs.c.id == tasks.c.job_id)
    query = query.where(tasks.c.worker_id == worker_id, tasks.c.held.is_(True), tasks.c.state == TaskState.LOST.value)
    rows = db.execute(query.order_by(tasks.c.job_id, tasks.c.attempt, tasks.c.node_rank))
    return [(values.task(row.record), values.spec(row.spec)) for row in rows]


def _ids_of_worker(worker_id: str) -> Select[Any]:
    return (
        select(tasks.c.job_id)
        .join(jobs, jobs.c.id == tasks.c.job_id)
        .where(tasks.c.worker_id == worker_id, tasks.c.held.is_(True), jobs.c.state.in_(_LIVING))
    )


def of_owner(db: Connection, process_id: str) -> list[JobRecord]:
    """Return the unended jobs that a process submitted."""
    query = select(*_COLUMNS).where(jobs.c.owner == process_id, jobs.c.state.in_(_LIVING))
    return _records(db, db.execute(query).all())


def first_deadline(db: Connection) -> float | None:
    """Return the earliest deadline of all jobs."""
    return db.execute(select(func.min(jobs.c.deadline))).scalar()


def due(db: Connection, now: float) -> list[str]:
    """Return the ids of jobs whose deadline has passed."""
    return list(db.execute(select(jobs.c.id).where(jobs.c.deadline <= now)).scalars())


class Version(NamedTuple):
    """How often a job was written, and how many events it has."""

    version: int
    events: int


def version(db: Connection, job_id: str) -> Version | None:
    """Return a job's version, None when there is no such job."""
    row = db.execute(select(jobs.c.version, jobs.c.events).where(jobs.c.id == job_id)).first()
    return None if row is None else Version(row.version, row.events)


def must_exist(db: Connection, job_id: str) -> None:
    """Raise ``JobNotFound``, or keep the job from being forgotten before this write transaction ends."""
    if db.execute(select(jobs.c.id).where(jobs.c.id == job_id).with_for_update(read=True, key_share=True)).first() is None:
        raise JobNotFound(f"There is no job {job_id}.", job_id=job_id)


def events_after(db: Connection, job_id: str, seq: int) -> tuple[Event, ...]:
    """Return the events numbered above ``seq``."""
    query = select(events_table).where(events_table.c.job_id == job_id, events_table.c.seq > seq)
    rows = db.execute(query.order_by(events_table.c.seq)).mappings()
    return tuple(Event(**{**row, "facts": json.loads(row["facts"])}) for row in rows)


def ended_before(db: Connection, then: float, limit: int) -> list[JobRecord]:
    """Return the jobs that had ended before a time, those that were submitted first before the others."""
    query = select(jobs.c.id).where(jobs.c.state.not_in(_LIVING), jobs.c.created_at < then)
    ids = db.execute(query.order_by(jobs.c.created_at, jobs.c.id)).scalars().all()
    found: list[JobRecord] = []
    for start in range(0, len(ids), limit):  # when a job ended stands in its record
        part = select(*_COLUMNS).where(jobs.c.id.in_(ids[start : start + limit])).order_by(jobs.c.created_at, jobs.c.id)
        found += [record for record in _records(db, db.execute(part).all()) if (record.ended_at or 0.0) < then]
        if len(found) >= limit:
            break
    return found[:limit]


def world_size(db: Connection, job_id: str, attempt: int) -> int | None:
    """Return how many ranks an attempt had, None when it was never placed."""
    query = select(tasks.c.world_size).where(tasks.c.job_id == job_id, tasks.c.attempt == attempt)
    return db.execute(query.limit(1)).scalar()


def held_tasks(db: Connection, worker_ids: Sequence[str] | None = None) -> list[TaskRecord]:
    """Return the tasks of which processes may live, of any attempt."""
    query = select(tasks.c.record).where(tasks.c.held.is_(True))
    if worker_ids is not None:
        query = query.where(tasks.c.worker_id.in_(worker_ids))
    return [values.task(text) for text in db.execute(query).scalars()]


def held_by_former(db: Connection) -> list[TaskRecord]:
    """Return the held tasks that were given to a worker before it registered anew: it knows nothing of them."""
    query = select(tasks.c.record).join(workers, workers.c.id == tasks.c.worker_id)
    query = query.where(tasks.c.held.is_(True), tasks.c.assigned_at < workers.c.registered_at)
    return [values.task(text) for text in db.execute(query).scalars()]


def forget(db: Connection, job_id: str) -> None:
    """Delete everything that is stored of a job; its blobs are collected later."""
    db.execute(delete(jobs).where(jobs.c.id == job_id))
    for table in tables.metadata.sorted_tables:
        if "job_id" in table.c:
            db.execute(delete(table).where(table.c.job_id == job_id))
    touched.note(db, job_id, touched.QUEUE)


def _records(db: Connection, rows: Sequence[Any]) -> list[JobRecord]:
    shares = _tasks_of(db, [row.id for row in rows if row.nodes])
    return [values.record(row.id, row.version, row.spec, row.rest, tuple(shares[row.id])) for row in rows]


def _tasks_of(db: Connection, wanted: Sequence[str]) -> dict[str, list[str]]:
    """Return the tasks of the latest attempts of jobs, as they are stored."""
    found: dict[str, list[str]] = defaultdict(list)
    latest: dict[str, int] = {}
    for start in range(0, len(wanted), 500):
        query = select(tasks.c.job_id, tasks.c.attempt, tasks.c.record).where(tasks.c.job_id.in_(wanted[start : start + 500]))
        for row in db.execute(query.order_by(tasks.c.attempt.desc(), tasks.c.node_rank)):
            if row.attempt == latest.setdefault(row.job_id, row.attempt):
                found[row.job_id].append(row.record)
    return found
