"""How many jobs and workers there are, by state."""

from __future__ import annotations

from sqlalchemy import Connection, func, select

from gpulayer.control.store.tables import jobs, workers


def jobs_by_state(db: Connection) -> dict[str, int]:
    return {row.state: row.n for row in db.execute(select(jobs.c.state, func.count().label("n")).group_by(jobs.c.state))}


def workers_by_state(db: Connection) -> dict[str, int]:
    query = select(workers.c.state, func.count().label("n")).group_by(workers.c.state)
    return {row.state: row.n for row in db.execute(query)}
