"""What a worker reports to the plane; every report names its attempt."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gpulayer.spec.base import Record
from gpulayer.spec.calls import Arrival, Outcome, Progress
from gpulayer.spec.causes import Evidence
from gpulayer.spec.files import CheckpointShare, Manifest
from gpulayer.spec.ranks import Milestone
from gpulayer.spec.records import RendezvousPoint
from gpulayer.spec.states import Phase, Reason, TaskState


class TaskReport(Record):
    """Common to all reports: which worker speaks of which task."""

    worker_id: str
    incarnation: str = ""
    job_id: str
    attempt: int
    node_rank: int


class TaskReady(TaskReport):
    """Prepared: bundle, inputs and environment are in place, devices are locked, no process runs.

    ``preflight`` is where it answers the other nodes.
    """

    kind: Literal["ready"] = "ready"
    preflight: RendezvousPoint | None = None


class TaskWaits(TaskReport):
    """Preparation can't go on yet, and why (a device that another home holds)."""

    kind: Literal["waits"] = "waits"
    sentence: str


class RendezvousTaken(TaskReport):
    """Node rank 0's worker took a port."""

    kind: Literal["rendezvous"] = "rendezvous"
    point: RendezvousPoint


class TaskRunning(TaskReport):
    """The agent (or command) was started."""

    kind: Literal["running"] = "running"


class TaskPhase(TaskReport):
    """The task moved on within its state: stopping, uploading."""

    kind: Literal["phase"] = "phase"
    phase: Phase


class TaskFault(TaskReport):
    """Evidence of a failure while other processes of the task may still run."""

    kind: Literal["fault"] = "fault"
    evidence: Evidence


class TaskEnded(TaskReport):
    """No process of the task is left and its outputs are indexed (or the upload gave up, which ``sentence`` says)."""

    kind: Literal["ended"] = "ended"
    state: TaskState
    reason: Reason
    exit_code: int | None = None
    sentence: str = ""
    evidence: tuple[Evidence, ...] = ()


class RankPassed(TaskReport):
    """A rank is one step further."""

    kind: Literal["passed"] = "passed"
    rank: int
    milestone: Milestone


class TaskStill(TaskReport):
    """Which ranks of the task show no sign of life for as long as the order said; each tells of all that do now."""

    kind: Literal["still"] = "still"
    ranks: tuple[int, ...]


class RankArrived(TaskReport):
    kind: Literal["arrived"] = "arrived"
    arrival: Arrival


class RankOutcome(TaskReport):
    """A rank recorded the outcome of a call; its body is already in the store."""

    kind: Literal["outcome"] = "outcome"
    outcome: Outcome


class CallStored(TaskReport):
    """The output files of this node, as they were at the end of the call, are stored and indexed."""

    kind: Literal["call_stored"] = "call_stored"
    call: int
    manifest: Manifest


class OutputsIndexed(TaskReport):
    """The final outputs of this node."""

    kind: Literal["outputs"] = "outputs"
    manifest: Manifest


class CheckpointAnnounced(TaskReport):
    kind: Literal["checkpoint"] = "checkpoint"
    share: CheckpointShare


class RankProgress(TaskReport):
    kind: Literal["progress"] = "progress"
    progress: Progress


Report = Annotated[
    TaskReady
    | TaskWaits
    | RendezvousTaken
    | TaskRunning
    | TaskPhase
    | TaskFault
    | TaskEnded
    | RankPassed
    | TaskStill
    | RankArrived
    | RankOutcome
    | CallStored
    | OutputsIndexed
    | CheckpointAnnounced
    | RankProgress,
    Field(discriminator="kind"),
]
