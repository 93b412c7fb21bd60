"""The numbered history of a job."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from gpulayer.spec.base import Record


class Event(Record):
    """Something that happened to a job, written in the same transaction as the move it tells of.

    Kinds in use: submitted, waiting, placed, phase, gated, running, call_go, call_arrived, call_needs_state, call_begun,
    call_outcome, call_settled, caller_ended, idle_limit, checkpoint, stopping, task_ended, ended, retry, cancel_requested.
    """

    job_id: str
    seq: int
    at: float
    kind: str
    attempt: int = 0
    node_rank: int | None = None
    facts: dict[str, Any] = Field(default_factory=dict)
