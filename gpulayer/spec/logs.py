"""One line that a rank wrote."""

from __future__ import annotations

from typing import Any, Literal

from gpulayer.spec.base import Record

StreamName = Literal["stdout", "stderr", "agent", "prepare"]


class LogLine(Record):
    """A line without its newline. ``seq`` counts from 0 per (attempt, node_rank, rank, stream).

    ``rank`` is the global rank; None for what torchrun's agent or a plain command printed, and for what preparing said.
    ``call`` numbers the Trainer call during which it was written, None outside of calls. ``time`` is seconds since the epoch at
    the worker.
    """

    job_id: str
    attempt: int
    node_rank: int
    rank: int | None
    stream: StreamName
    seq: int
    time: float
    text: str
    call: int | None = None


_ALL = set(LogLine.model_fields)
_set = object.__setattr__  # what pydantic's own ``model_construct`` does, without looking at each field


def of_checked(fields: dict[str, Any]) -> LogLine:
    """Make a line of all its fields, which were checked before: checking is most of the time that many lines take."""
    line = LogLine.__new__(LogLine)
    _set(line, "__dict__", fields)
    _set(line, "__pydantic_fields_set__", _ALL)
    _set(line, "__pydantic_extra__", None)
    _set(line, "__pydantic_private__", None)
    return line
