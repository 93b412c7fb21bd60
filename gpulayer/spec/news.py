"""What a follower of a job is told, and where it stands."""

from __future__ import annotations

from gpulayer.spec.base import Record
from gpulayer.spec.events import Event
from gpulayer.spec.logs import LogLine
from gpulayer.spec.records import JobRecord


class Cursor(Record):
    """Where a follower stands: the last event, the last stored batch of lines and the job's version it has seen."""

    event: int = 0
    lines: int = 0
    version: int = 0


class News(Record):
    """What happened to a job since a cursor. ``job`` is the job as it is now."""

    job: JobRecord
    events: tuple[Event, ...] = ()
    lines: tuple[LogLine, ...] = ()
    cursor: Cursor
    more: bool = False
    """Whether more lines are stored behind these: a long log comes in several batches."""
