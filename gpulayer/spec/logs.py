"""One line that a rank wrote."""

from __future__ import annotations

from typing import Literal

from gpulayer.spec.base import Record

StreamName = Literal["stdout", "stderr", "agent"]


class LogLine(Record):
    """A line without its newline. ``seq`` counts from 0 per (attempt, node_rank, rank, stream).

    ``rank`` is the global rank; None for what torchrun's agent or a plain command printed. ``call`` numbers the Trainer call
    during which it was written, None outside of calls. ``time`` is seconds since the epoch at the worker.
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
