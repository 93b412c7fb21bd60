"""What a write transaction touched: recorded by whoever writes, told to the listeners once it is committed."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection

from gpulayer.spec.events import Event

QUEUE = "queue"
"""The queue or the fleet may allow other placements than before."""
ANYTHING = "*"
"""Told where something was missed."""

OPTION = "plane_touched"
"""The execution option of a writing connection that holds a ``Touched``."""


class Touched(set[str]):
    """The names, and beside them the events of jobs that were written."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Event] = []


def note(db: Connection, *names: str) -> None:
    """Record ids of jobs and workers that the transaction on ``db`` changed, or ``QUEUE``."""
    db.get_execution_options()[OPTION].update(names)


def tell(db: Connection, events: Iterable[Event]) -> None:
    """Record events of jobs that the transaction on ``db`` writes."""
    db.get_execution_options()[OPTION].events.extend(events)
