"""What a write transaction touched: recorded by whoever writes, told to the listeners once it is committed."""

from __future__ import annotations

from sqlalchemy import Connection

QUEUE = "queue"
"""The queue or the fleet may allow other placements than before."""
ANYTHING = "*"
"""Told where something was missed."""

OPTION = "plane_touched"
"""The execution option of a writing connection that holds the set."""


def note(db: Connection, *names: str) -> None:
    """Record ids of jobs and workers that the transaction on ``db`` changed, or ``QUEUE``."""
    db.get_execution_options()[OPTION].update(names)
