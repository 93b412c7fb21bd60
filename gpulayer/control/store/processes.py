"""The processes that have the home open; their lock files say whether they live."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, delete, insert, select, update

from gpulayer.control.store.tables import processes


class Process(NamedTuple):
    """A process as it registered itself. ``left`` is its farewell."""

    id: str
    kind: str
    pid: int
    left: bool


def add(db: Connection, process_id: str, kind: str, pid: int, now: float) -> None:
    db.execute(insert(processes).values(id=process_id, kind=kind, pid=pid, opened_at=now, left=False))


def leave(db: Connection, process_id: str) -> None:
    """Note that a process closed the home properly."""
    db.execute(update(processes).where(processes.c.id == process_id).values(left=True))


def end(db: Connection, process_id: str, now: float) -> None:
    """Note that nothing of a process is left to clear up."""
    db.execute(update(processes).where(processes.c.id == process_id, processes.c.ended_at.is_(None)).values(ended_at=now))


def unended(db: Connection) -> list[Process]:
    query = select(processes.c.id, processes.c.kind, processes.c.pid, processes.c.left)
    return [Process(*row) for row in db.execute(query.where(processes.c.ended_at.is_(None)).order_by(processes.c.opened_at))]


def find(db: Connection, process_id: str) -> Process | None:
    """Return a process, ended or not."""
    query = select(processes.c.id, processes.c.kind, processes.c.pid, processes.c.left)
    row = db.execute(query.where(processes.c.id == process_id)).first()
    return None if row is None else Process(*row)


def forget_ended(db: Connection, before: float) -> None:
    db.execute(delete(processes).where(processes.c.ended_at < before))
