"""Evidence of a failure, from which the first true cause is chosen."""

from __future__ import annotations

from typing import Literal

from gpulayer.spec.base import Record
from gpulayer.spec.calls import ErrorRecord

EvidenceKind = Literal["exception", "signal", "exit", "communication", "preparation", "rendezvous", "diverged", "straggler"]


class Evidence(Record):
    """One thing that was seen to go wrong. ``at`` is when the plane heard of it (seconds since the epoch).

    ``rank`` is None where the node as a whole failed (preparation, rendezvous, the agent itself).
    """

    kind: EvidenceKind
    node_rank: int
    rank: int | None = None
    at: float = 0.0
    exit_code: int | None = None
    signal: int | None = None
    sentence: str = ""
    next_step: str = ""
    """What a person can do about it, where that is known."""
    error: ErrorRecord | None = None
