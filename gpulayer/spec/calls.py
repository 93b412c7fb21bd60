"""How the calls of one script advance in lockstep between the caller and the ranks."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpulayer.spec.base import Record
from gpulayer.spec.files import Blob, FileEntry

FunctionName = Literal["fit", "validate", "test", "predict"]
OutcomeStatus = Literal["ok", "failed", "interrupted"]


class Fingerprint(Record):
    """What caller and ranks must agree on before a call computes."""

    call: int
    function: FunctionName
    trainer: int
    """Trainers are numbered by construction, from 0."""
    module: str
    """The module's class, as module:qualname."""
    shapes: str
    """Digest of parameter and buffer names and shapes; empty when they are lazy or unknown."""
    ckpt_path: str | None = None
    """As the user wrote it, made relative to the caller's root."""
    max_epochs: int | None = None


class EarlierCall(Record):
    """A call that a job before this one answered: ranks apply its record instead of computing.

    One that was ``left`` is answered where the script attaches to its job.
    """

    call: int
    status: OutcomeStatus
    outcome: Blob | None = None
    error: ErrorRecord | None = None
    left: bool = False


class Go(Record):
    """The caller's word that a call may begin, with the caller's settings for it.

    ``settings`` is a blob for the in-job half (paths, logger versions, random states). ``state_digest`` names the caller's
    module tensors; if rank 0's differ, the plane asks for ``state`` and no rank begins before it is there. ``checkpoint`` is
    what the call loads, where other machines have it of the caller alone: one file, or a folder with its files.
    """

    fingerprint: Fingerprint
    settings: Blob | None = None
    state_digest: str = ""
    state: Blob | None = None
    earlier: tuple[EarlierCall, ...] = ()
    checkpoint: tuple[FileEntry, ...] = ()

    @property
    def call(self) -> int:
        return self.fingerprint.call


Plain = None | bool | int | float | str


class ErrorRecord(Record):
    """An exception that a rank recorded; ``body`` is the in-job half's encoding of its args and attributes.

    ``args`` are those of an exception that has plain ones alone, else None; ``fields`` are what a builtin one keeps beside them
    (``filename``, ``code``). They are all that is known where there is no body: outside of calls.
    """

    rank: int
    module: str
    qualname: str
    message: str
    traceback: str
    args: tuple[Plain, ...] | None = None
    fields: dict[str, Plain] = Field(default_factory=dict)
    body: Blob | None = None
    communication: bool = False
    """Whether it reads like a peer's death (connection closed, timeout) rather than a cause."""


class Outcome(Record):
    """What one rank recorded at the end of a call."""

    call: int
    rank: int
    status: OutcomeStatus
    at: float
    began: float | None = None
    """When the call began on the rank; like ``at`` by the clock of its machine."""
    body: Blob | None = None
    error: ErrorRecord | None = None


class Arrival(Record):
    """A rank stands at a call, or (``fingerprint`` None) left the script after ``call`` calls."""

    rank: int
    call: int
    fingerprint: Fingerprint | None
    state_digest: str = ""
    at: float


class CallView(Record):
    """One call as the plane knows it."""

    call: int
    go: Go | None = None
    arrivals: tuple[Arrival, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    stored: tuple[int, ...] = ()
    """Node ranks whose output files of the call are stored."""
    begun: bool = False
    needs_state: bool = False
    """Rank 0's module differs from the caller's: the plane waits for ``send_state``."""
    settled: bool = False
    """Every rank recorded its outcome and the files of the call are stored."""


class Progress(Record):
    """Where rank 0 is; rates in steps per second, ``eta_s`` in seconds."""

    call: int
    at: float
    function: str = ""
    epoch: int | None = None
    max_epochs: int | None = None
    step: int | None = None
    batch: int | None = None
    batches: int | None = None
    rate: float | None = None
    eta_s: float | None = None
    metrics: dict[str, float] = Field(default_factory=dict)
