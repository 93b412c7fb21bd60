"""Registered workers, with what they are at."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, case, delete, func, or_, select, update

from gpulayer.control.store import touched, values
from gpulayer.control.store.replace import replace
from gpulayer.control.store.tables import jobs, tasks, workers
from gpulayer.errors import AmbiguousId, NameTaken, WorkerNotFound
from gpulayer.spec.job import JobBase
from gpulayer.spec.records import TaskRecord, WorkerRecord
from gpulayer.spec.workers import WorkerInfo

SERVING = ("online", "draining")
SHOWN = (*SERVING, "lost")
_before_lost = func.coalesce(workers.c.before_lost, "online")
_standing_of = case((workers.c.state == "lost", _before_lost), else_=workers.c.state).label("stands")


def register(db: Connection, info: WorkerInfo, now: float) -> None:
    """Write a worker as online. Registering again is harmless; as another incarnation it takes the place of the older.

    One that was told to take no more stays told until it has left, however often it is started meanwhile.
    """
    query = select(workers.c.info, workers.c.registered_at, _standing_of).where(workers.c.id == info.id)
    known = db.execute(query.with_for_update()).first()
    same = known is not None and values.worker_info(known.info).incarnation == info.incarnation
    columns = {
        "name": info.name,
        "owner": info.owner,
        "process": info.process,
        "state": "draining" if known is not None and known.stands == "draining" else "online",
        "registered_at": known.registered_at if known is not None and same else now,
        "heard_at": now,
        "info": info.model_dump_json(),
    }
    replace(db, workers, {"id": info.id}, columns)
    touched.note(db, info.id, touched.QUEUE)


def must_be_the_only(db: Connection, name: str, worker_id: str = "") -> None:
    """Raise ``NameTaken`` where a standing worker, and not this one, serves under a name; a lost one's may be taken over."""
    others = (workers.c.name == name, workers.c.state.in_(SERVING), workers.c.owner.is_(None), workers.c.id != worker_id)
    taken = db.execute(select(workers.c.id).where(*others)).scalar()
    if taken is not None:
        raise NameTaken(f"{taken} is a live worker of the name {name}.", worker_id=taken, name=name)


def set_state(db: Connection, worker_id: str, state: str) -> bool:
    """Move a worker to another state; False when it isn't registered or was in it."""
    return _move(db, worker_id, state, workers.c.state != state)


def lose(db: Connection, worker_id: str, last_heard: float) -> bool:
    """Give up a serving worker that was last heard at that time; False when it was heard again, by any server."""
    where = (workers.c.id == worker_id, workers.c.state.in_(SERVING), workers.c.heard_at == last_heard)
    db.execute(update(workers).where(*where).values(before_lost=workers.c.state))
    return _move(db, worker_id, "lost", *where)


def revive(db: Connection, worker_id: str) -> bool:
    """Let a lost worker be what it was before; False when it isn't lost."""
    return _move(db, worker_id, _before_lost, workers.c.state == "lost")


def _move(db: Connection, worker_id: str, state: str | ColumnElement[str], *where: ColumnElement[bool]) -> bool:
    moved = bool(db.execute(update(workers).where(workers.c.id == worker_id, *where).values(state=state)).rowcount)
    if moved:
        touched.note(db, worker_id, touched.QUEUE)
    return moved


def heard(db: Connection, worker_id: str, now: float) -> None:
    db.execute(update(workers).where(workers.c.id == worker_id).values(heard_at=now))


class Standing(NamedTuple):
    """What a worker's own questions need of its row."""

    state: str
    incarnation: str
    heard_at: float


def standing(db: Connection, worker_id: str) -> Standing | None:
    """Return how a worker stands; None when it isn't registered."""
    row = db.execute(select(workers.c.state, workers.c.info, workers.c.heard_at).where(workers.c.id == worker_id)).first()
    return None if row is None else Standing(row.state, values.worker_info(row.info).incarnation, row.heard_at)


def of_process(db: Connection, process_id: str) -> list[WorkerRecord]:
    """Return the workers that a process hosts or hosted."""
    return _records(db, (workers.c.process == process_id,))


def full_id(db: Connection, wanted: str) -> str:
    """Return the id that ``wanted`` begins, or of the worker that is named so."""
    query = select(workers.c.id, workers.c.name).where(workers.c.state.in_(SHOWN))
    rows = db.execute(query).all()
    found = [row.id for row in rows if wanted in (row.id, row.name)] or [
        row.id for row in rows if row.id.removeprefix("wkr-").startswith(wanted.removeprefix("wkr-"))
    ]
    if len(found) == 1:
        return str(found[0])
    if found:
        raise AmbiguousId(f"{wanted} could be {', '.join(sorted(found))}.", found=sorted(found))
    raise WorkerNotFound(f"There is no worker {wanted}.", worker_id=wanted)


def forget(db: Connection, worker_id: str) -> None:
    db.execute(delete(workers).where(workers.c.id == worker_id))
    touched.note(db, worker_id, touched.QUEUE)


def forget_gone(db: Connection, before: float) -> None:
    """Delete the workers that are gone, were last heard before a time, and hold nothing."""
    holding = select(tasks.c.worker_id).where(tasks.c.held.is_(True))
    where = (workers.c.state == "gone", workers.c.heard_at < before, workers.c.id.not_in(holding))
    db.execute(delete(workers).where(*where))


def load(db: Connection, worker_id: str) -> WorkerRecord:
    found = _records(db, (workers.c.id == worker_id,))
    if not found:
        raise WorkerNotFound(f"There is no worker {worker_id}.", worker_id=worker_id)
    return found[0]


def all_in(db: Connection, states: Sequence[str] = SHOWN) -> list[WorkerRecord]:
    """Return the workers in any of ``states``, in the order in which they registered."""
    return _records(db, (workers.c.state.in_(states),))


def for_placement(db: Connection) -> list[WorkerRecord]:
    """Return the workers that serve, and the others whose tasks still hold something on their machines."""
    holding = select(tasks.c.worker_id).where(tasks.c.held.is_(True))
    return _records(db, (or_(workers.c.state.in_(SERVING), workers.c.id.in_(holding)),))


def some(db: Connection, worker_ids: Iterable[str]) -> list[WorkerRecord]:
    """Return the workers with these ids that serve, and keep them so until this write transaction ends."""
    where = (workers.c.id.in_(sorted(worker_ids)), workers.c.state.in_(SERVING))
    db.execute(select(workers.c.id).where(*where).order_by(workers.c.id).with_for_update(key_share=True))
    return _records(db, where)


_COLUMNS = (workers.c.id, workers.c.info, workers.c.state, workers.c.registered_at, workers.c.heard_at)


def _records(db: Connection, where: Sequence[ColumnElement[bool]]) -> list[WorkerRecord]:
    held = _held(db)
    query = select(*_COLUMNS).where(*where).order_by(workers.c.registered_at, workers.c.id)
    return [
        _busy(_idle(info, state, registered_at, heard_at), held[worker_id])
        if worker_id in held
        else _idle(info, state, registered_at, heard_at)
        for worker_id, info, state, registered_at, heard_at in db.execute(query).all()
    ]


@lru_cache(maxsize=16384)
def _idle(info: str, state: str, registered_at: float, heard_at: float) -> WorkerRecord:
    return WorkerRecord(info=values.worker_info(info), state=state, registered_at=registered_at, heard_at=heard_at)


def _busy(idle: WorkerRecord, held: list[tuple[TaskRecord, float | None]]) -> WorkerRecord:
    ends = [until for _, until in held]
    more = {
        "busy": tuple((task.job_id, task.attempt, task.node_rank) for task, _ in held),
        "leased": tuple(device.uuid for task, _ in held for device in task.devices),
        "busy_until": None if None in ends else max((end for end in ends if end is not None), default=None),
    }
    return idle.model_copy(update=more)


def _held(db: Connection) -> dict[str, list[tuple[TaskRecord, float | None]]]:
    """Return for each worker its held tasks, each with the time by which its timeout must have ended it."""
    found: dict[str, list[tuple[TaskRecord, float | None]]] = defaultdict(list)
    query = select(tasks.c.worker_id, tasks.c.record, jobs.c.spec).join(jobs, jobs.c.id == tasks.c.job_id)
    for row in db.execute(query.where(tasks.c.held.is_(True)).order_by(tasks.c.job_id, tasks.c.node_rank)):
        task = values.task(row.record)
        found[row.worker_id].append((task, _ends_by(task, values.spec(row.spec))))
    return found


def _ends_by(task: TaskRecord, job: JobBase) -> float | None:
    if job.timeout_s is None or task.running_at is None:
        return None
    return task.running_at + job.timeout_s + job.grace_s
