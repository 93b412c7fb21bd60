"""Runs the Alembic revisions that a database lacks, inside the caller's transaction."""

from __future__ import annotations

from pathlib import Path

from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection


def upgrade(db: Connection, found: int, *, to: int | None = None) -> None:
    """Go from schema ``found`` (0 is an empty database) to schema ``to``, or to the newest.

    Revisions are named by their number, "0001". That number in the database is the only record of where it stands:
    Alembic's own version table is not used, so that the two can't disagree.
    """
    script = ScriptDirectory(str(Path(__file__).parent))
    wanted = list(script.iterate_revisions("head" if to is None else f"{to:04d}", f"{found:04d}" if found else "base"))
    with Operations.context(MigrationContext.configure(db)):
        for step in reversed(wanted):
            step.module.upgrade()
