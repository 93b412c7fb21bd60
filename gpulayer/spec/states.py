"""States, phases and reasons, with the one table of legal moves."""

from __future__ import annotations

from enum import StrEnum


class JobState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    LOST = "lost"

    @property
    def terminal(self) -> bool:
        return self not in (JobState.QUEUED, JobState.RUNNING)


class TaskState(StrEnum):
    ASSIGNED = "assigned"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    LOST = "lost"

    @property
    def terminal(self) -> bool:
        return self not in (TaskState.ASSIGNED, TaskState.RUNNING)


class WorkerState(StrEnum):
    """How a worker stands with the plane. A draining one takes no tasks; of a lost one, processes may live."""

    ONLINE = "online"
    DRAINING = "draining"
    LOST = "lost"
    GONE = "gone"

    @property
    def serving(self) -> bool:
        """Whether it is heard from."""
        return self in (WorkerState.ONLINE, WorkerState.DRAINING)


class Phase(StrEnum):
    """What a job or task is doing within its state."""

    PREPARING = "preparing"
    GATING = "gating"
    RUNNING = "running"
    HOLDING = "holding"
    STOPPING = "stopping"
    UPLOADING = "uploading"


class Reason(StrEnum):
    """Why a state was entered, or why a job waits."""

    DONE = "done"
    UNSCHEDULABLE = "unschedulable"
    WAITING_FOR_WORKERS = "waiting_for_workers"
    QUEUE_TIMEOUT = "queue_timeout"
    PREPARATION_FAILED = "preparation_failed"
    RENDEZVOUS_FAILED = "rendezvous_failed"
    USER_ERROR = "user_error"
    SIGNALLED = "signalled"
    EXITED = "exited"
    CALLS_DIVERGED = "calls_diverged"
    STRAGGLER = "straggler"
    PEER_FAILED = "peer_failed"
    WORKER_LOST = "worker_lost"
    TIMEOUT = "timeout"
    CANCELLED_BY_USER = "cancelled_by_user"
    CALLER_GONE = "caller_gone"
    CALLER_AND_WORKER_GONE = "caller_and_worker_gone"
    IDLE_LIMIT = "idle_limit"
    CALLER_ENDED = "caller_ended"
    RETRY = "retry"


_J, _T, _W = JobState, TaskState, WorkerState

JOB_MOVES: dict[JobState, frozenset[JobState]] = {
    _J.QUEUED: frozenset({_J.RUNNING, _J.FAILED, _J.CANCELLED, _J.TIMED_OUT, _J.LOST}),
    _J.RUNNING: frozenset({_J.QUEUED, _J.SUCCEEDED, _J.FAILED, _J.CANCELLED, _J.TIMED_OUT, _J.LOST}),
}
"""RUNNING back to QUEUED is a new attempt of an independent job; a terminal state has no move."""

TASK_MOVES: dict[TaskState, frozenset[TaskState]] = {
    _T.ASSIGNED: frozenset({_T.RUNNING, _T.FAILED, _T.CANCELLED, _T.TIMED_OUT, _T.LOST}),
    _T.RUNNING: frozenset({_T.SUCCEEDED, _T.FAILED, _T.CANCELLED, _T.TIMED_OUT, _T.LOST}),
}


WORKER_MOVES: dict[WorkerState, frozenset[WorkerState]] = {
    _W.ONLINE: frozenset({_W.DRAINING, _W.LOST, _W.GONE}),
    _W.DRAINING: frozenset({_W.LOST, _W.GONE}),
    _W.LOST: frozenset({_W.ONLINE, _W.DRAINING, _W.GONE}),
}
"""A lost worker that is heard again is what it was before; one that is gone, or a newer incarnation, registers anew."""


def may_move(old: JobState | TaskState | WorkerState, new: JobState | TaskState | WorkerState) -> bool:
    """Say whether the table allows ``old`` to become ``new``."""
    match old:
        case JobState():
            return new in JOB_MOVES.get(old, frozenset())
        case TaskState():
            return new in TASK_MOVES.get(old, frozenset())
        case WorkerState():
            return new in WORKER_MOVES.get(old, frozenset())
