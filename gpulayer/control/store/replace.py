"""Writing a row that may be there already, in SQL that every database speaks."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Table, insert, update


def replace(db: Connection, table: Table, key: dict[str, Any], values: dict[str, Any]) -> None:
    """Set ``values`` where ``key`` is, and insert both where it isn't; inside a write transaction nobody comes between."""
    where = [table.c[name] == value for name, value in key.items()]
    if not db.execute(update(table).where(*where).values(**values)).rowcount:
        db.execute(insert(table).values(**key, **values))
