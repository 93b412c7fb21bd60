"""What a rank and its worker say to each other over the task's Unix socket: one JSON object a line."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from gpulayer.spec.base import DEFERRED, Record
from gpulayer.spec.calls import ErrorRecord, Fingerprint, OutcomeStatus, Plain, Progress
from gpulayer.spec.files import Blob


class Hello(Record):
    """The first message of a rank."""

    kind: Literal["hello"] = "hello"
    attempt: int
    rank: int
    pid: int


class Joins(Record):
    """The rank goes into torch's first ``init_process_group``, or (``met``) came out of it."""

    kind: Literal["joins"] = "joins"
    met: bool = False


class Arrive(Record):
    """The rank stands at a call; it computes only after ``Begin``."""

    kind: Literal["arrive"] = "arrive"
    fingerprint: Fingerprint
    state_digest: str = ""


class Raised(Record):
    """An exception as its rank tells of it (see ``ErrorRecord``); ``body`` is a file as in ``Recording``."""

    module: str
    qualname: str
    message: str = ""
    traceback: str = ""
    args: tuple[Plain, ...] | None = None
    fields: dict[str, Plain] = Field(default_factory=dict)
    body: str | None = None
    communication: bool = False

    def record(self, rank: int, body: Blob | None = None) -> ErrorRecord:
        """Return what goes on to the plane, with the stored ``body``."""
        return ErrorRecord(rank=rank, **self.model_dump(exclude={"body"}), body=body)


class Recording(Record):
    """The outcome of a call; bodies are files in the task's folder that the worker stores and removes."""

    kind: Literal["record"] = "record"
    call: int
    status: OutcomeStatus
    began: float | None = None
    """When the call began on this rank, by the clock of its machine."""
    body: str | None = None
    error: Raised | None = None


class Recorded(Record):
    """The worker stored an outcome: the rank may hold, or leave."""

    kind: Literal["recorded"] = "recorded"
    call: int


class Left(Record):
    """The script ended on this rank after ``calls`` calls; ``error`` is set when it raised outside of a call."""

    kind: Literal["left"] = "left"
    calls: int
    exit_code: int
    error: Raised | None = None


class GoAhead(Record):
    """The caller's go for a call has come: leave the one before, walk the script to this one, arrive."""

    kind: Literal["go"] = "go"
    go: str
    """The ``Go``, as JSON."""
    settings: str | None = None
    """The settings blob, as a local file."""
    earlier: tuple[str | None, ...] = ()
    """Local files of the earlier calls' outcome bodies, in the order of ``go.earlier``."""
    earlier_errors: tuple[str | None, ...] = ()
    checkpoint: str | None = None
    """What the call loads, where the caller sent it: a local file or folder."""


class Begin(Record):
    """All ranks have arrived with the caller's fingerprint: compute. ``state`` is a local file with the caller's tensors."""

    kind: Literal["begin"] = "begin"
    call: int
    state: str | None = None


class End(Record):
    """No further call will come: leave now, from inside the call held in."""

    kind: Literal["end"] = "end"


class Interrupted(Record):
    """The job's user wants its end: what ends the call is then a KeyboardInterrupt. Its SIGTERM comes by another way."""

    kind: Literal["interrupted"] = "interrupted"


class Announce(Record):
    """A rank's share of a checkpoint was written. ``path`` and ``files`` are absolute."""

    kind: Literal["announce"] = "announce"
    serial: int
    path: str
    files: tuple[str, ...]
    epoch: int | None = None
    step: int | None = None
    monitor: str | None = None
    score: float | None = None
    mode: Literal["min", "max"] | None = None
    removed: bool = False


class Kept(Record):
    """The worker holds its own copy of an announced save: the job may delete or overwrite the files."""

    kind: Literal["kept"] = "kept"
    serial: int


class Progressed(Record):
    """Progress of rank 0."""

    kind: Literal["progress"] = "progress"
    progress: Progress


FromRank = Annotated[Hello | Joins | Arrive | Recording | Left | Announce | Progressed, Field(discriminator="kind")]
ToRank = Annotated[GoAhead | Begin | End | Interrupted | Recorded | Kept, Field(discriminator="kind")]
FROM_RANK: TypeAdapter[Hello | Joins | Arrive | Recording | Left | Announce | Progressed] = TypeAdapter(
    FromRank, config=DEFERRED
)
TO_RANK: TypeAdapter[GoAhead | Begin | End | Interrupted | Recorded | Kept] = TypeAdapter(ToRank, config=DEFERRED)
