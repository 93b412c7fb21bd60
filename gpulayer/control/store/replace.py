"""Writing a row that may be there already."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Table, insert, update


def replace(
    db: Connection, table: Table, key: dict[str, Any], values: dict[str, Any], *, first: dict[str, Any] | None = None
) -> None:
    """Set ``values`` where ``key`` is; where it isn't, insert both, with what is only said ``first``."""
    where = [table.c[name] == value for name, value in key.items()]
    if db.execute(update(table).where(*where).values(**values)).rowcount:
        return
    if db.dialect.name == "sqlite":  # inside a write transaction nobody comes between
        db.execute(insert(table).values(**key, **values, **(first or {})))
    else:
        from gpulayer.control.store import postgres

        postgres.upsert(db, table, key, values, first or {})


def insert_missing(db: Connection, table: Table, row: dict[str, Any], unique: str) -> bool:
    """Insert a row that was just seen to be missing; False when someone else inserted one with its ``unique`` meanwhile."""
    if db.dialect.name == "sqlite":
        db.execute(insert(table).values(**row))
        return True
    from gpulayer.control.store import postgres

    return postgres.insert_missing(db, table, row, unique)
