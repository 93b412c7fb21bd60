"""Which jobs a worker works on, and which files are a job's: the facts behind the rights of workers and tasks."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, select

from gpulayer.control.store import blobs
from gpulayer.control.store.tables import tasks
from gpulayer.spec.states import TaskState

_LIVING = tuple(state.value for state in TaskState if not state.terminal)


def has_task(db: Connection, worker_id: str, job_id: str, *, living: bool = False) -> bool:
    """Say whether a worker holds or held a task of a job; ``living`` asks for one that has not ended."""
    query = select(tasks.c.job_id).where(tasks.c.worker_id == worker_id, tasks.c.job_id == job_id)
    if living:
        query = query.where(tasks.c.state.in_(_LIVING))
    return db.execute(query.limit(1)).first() is not None


def has_tasks(db: Connection, worker_id: str, job_id: str, wanted: Iterable[tuple[int, int]]) -> bool:
    """Say whether each of these tasks of a job, as (attempt, node rank), is or was a worker's."""
    query = select(tasks.c.attempt, tasks.c.node_rank).where(tasks.c.worker_id == worker_id, tasks.c.job_id == job_id)
    return {(row.attempt, row.node_rank) for row in db.execute(query)} >= set(wanted)


def has_blob(db: Connection, job_id: str, sha256: str) -> bool:
    """Say whether a blob is stored with a job."""
    return sha256 in blobs.of_job(db, job_id)
