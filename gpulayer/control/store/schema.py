"""Which schema a database has, and bringing an older one up to ours."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import OperationalError

from gpulayer.control.store import sqlite
from gpulayer.control.store.tables import metadata
from gpulayer.errors import HomeTooNew

NEWEST = 2
"""The number of the newest revision in migrations/versions; SQLite keeps the database's own in ``user_version``."""

_OPENING_S = 30.0


def prepare(engine: Engine, home: Path) -> None:
    """Create or upgrade the database where it isn't the newest; a newer one is refused, untouched."""
    with engine.connect() as db:
        found = sqlite.schema_number(db)
    refuse_newer(found, home)
    if found == NEWEST:
        return
    _into_write_ahead(engine)
    with engine.connect().execution_options(plane_write=True) as db, db.begin():
        found = sqlite.schema_number(db)  # another process may have been first
        refuse_newer(found, home)
        if found < NEWEST:
            _upgrade(db, found)
            sqlite.set_schema_number(db, NEWEST)


def refuse_newer(found: int, home: Path) -> None:
    if found > NEWEST:
        raise HomeTooNew(
            f"{home} was written by a newer GPUlayer (schema {found}; this one knows {NEWEST}).",
            home=str(home),
            schema=found,
            newest=NEWEST,
        )


def _into_write_ahead(engine: Engine) -> None:
    """Two processes that open a fresh home at once find each other's lock here, which the busy timeout doesn't wait for."""
    until = time.monotonic() + _OPENING_S
    while True:
        try:
            return sqlite.write_ahead(engine)
        except (sqlite3.OperationalError, OperationalError) as cause:
            if "locked" not in str(cause) or time.monotonic() > until:
                raise
            time.sleep(0.005)


def _upgrade(db: Connection, found: int) -> None:
    if found == 0:
        metadata.create_all(db)  # as all migrations together would leave it, without the cost of importing Alembic
    else:
        from gpulayer.control.store.migrations import run

        run.upgrade(db, found)
