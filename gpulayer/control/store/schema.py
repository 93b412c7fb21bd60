"""Which schema this program knows, and bringing an older database up to it."""

from __future__ import annotations

from sqlalchemy import Connection

from gpulayer.control.store.tables import metadata

NEWEST = 2
"""The number of the newest revision in migrations/versions; each kind of database keeps its own number in its own way."""


def upgrade(db: Connection, found: int) -> None:
    """Create the tables in an empty database (``found`` is 0), or go from an older schema to the newest."""
    if found == 0:
        metadata.create_all(db)  # as all migrations together would leave it, without the cost of importing Alembic
    else:
        from gpulayer.control.store.migrations import run

        run.upgrade(db, found)
