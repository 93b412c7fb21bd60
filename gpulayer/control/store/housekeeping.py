"""When the plane last did its own chores, so that one of many processes does each."""

from __future__ import annotations

from sqlalchemy import Connection, select, update

from gpulayer.control.store.replace import insert_missing
from gpulayer.control.store.tables import marks


def take_turn(db: Connection, chore: str, every_s: float, now: float) -> bool:
    """Take the turn for a chore if none took it within ``every_s``."""
    known = db.execute(select(marks.c.value).where(marks.c.name == chore).with_for_update()).scalar()
    if known is None:
        return insert_missing(db, marks, {"name": chore, "value": now}, "name")
    if known <= now - every_s or known > now + every_s:  # a clock that was set back must not stop the chores
        db.execute(update(marks).where(marks.c.name == chore).values(value=now))
        return True
    return False
