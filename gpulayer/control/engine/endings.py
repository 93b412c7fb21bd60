"""How a job ends once none of its tasks is left: its state, its reason, and the sentence for people."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpulayer.control.engine import agreement, causes
from gpulayer.spec.causes import Evidence
from gpulayer.spec.job import DistributedJob
from gpulayer.spec.records import JobRecord, Stop
from gpulayer.spec.states import JobState, Reason, TaskState

_ASKED = {
    Reason.CANCELLED_BY_USER: "Cancelled as asked.",
    Reason.CALLER_GONE: "The caller ended without saying so, and its job was stopped.",
    Reason.CALLER_ENDED: "The caller ended before the job began.",
    Reason.CALLER_AND_WORKER_GONE: "The caller and the worker ended without saying so.",
}
_OWN_WORDS = frozenset({Reason.TIMEOUT, Reason.QUEUE_TIMEOUT, Reason.PEER_FAILED})
"""Stops of these reasons aren't a person's wish."""


@dataclass(frozen=True)
class Ending:
    """The last word on an attempt; ``may_retry`` says whether another one could go better."""

    state: JobState
    reason: Reason
    sentence: str
    cause: Evidence | None = None
    may_retry: bool = False


def ending_of(record: JobRecord) -> Ending:
    """Judge an attempt of which every task has ended."""
    gone = [task for task in record.tasks if task.reason is Reason.CALLER_AND_WORKER_GONE]
    if gone:
        return stopped(Stop(reason=Reason.CALLER_AND_WORKER_GONE, sentence=gone[0].sentence))
    stop = record.stop
    timed_out = stop is not None and stop.reason is Reason.TIMEOUT and not _all_succeeded(record)
    if stop is not None and (timed_out or stop.reason not in _OWN_WORDS):
        return _with_losses(stopped(stop), record)
    return _succeeded(record) if _all_succeeded(record) and not record.evidence else _failed(record)


def stopped(stop: Stop) -> Ending:
    """Return the ending of a job that was stopped for ``stop.reason``."""
    if stop.reason in (Reason.TIMEOUT, Reason.QUEUE_TIMEOUT):
        state = JobState.TIMED_OUT
    elif stop.reason is Reason.CALLER_AND_WORKER_GONE:
        state = JobState.LOST
    else:
        state = JobState.CANCELLED
    sentence = stop.sentence or _ASKED.get(stop.reason) or f"Stopped ({stop.reason})."
    return Ending(state, stop.reason, sentence)


def _with_losses(ending: Ending, record: JobRecord) -> Ending:
    """Add which tasks ended out of sight: their processes may live, and their devices stay leased."""
    lost = [task.sentence for task in record.tasks if task.state is TaskState.LOST]
    return replace(ending, sentence=" ".join([ending.sentence, *lost]))


def _all_succeeded(record: JobRecord) -> bool:
    return all(task.state is TaskState.SUCCEEDED for task in record.tasks)


def _succeeded(record: JobRecord) -> Ending:
    if record.reason is Reason.IDLE_LIMIT:
        return Ending(JobState.SUCCEEDED, Reason.IDLE_LIMIT, record.sentence)
    count = len(record.tasks)
    sentence = "Its task succeeded." if count == 1 else f"All {count} tasks succeeded."
    return Ending(JobState.SUCCEEDED, Reason.DONE, sentence)


def _failed(record: JobRecord) -> Ending:
    cause = causes.first_cause(record.evidence)
    independent = not isinstance(record.spec, DistributedJob)
    lost = _was_loss(record, cause)
    if lost is not None:
        state = JobState.LOST if independent else JobState.FAILED
        return Ending(state, Reason.WORKER_LOST, lost, may_retry=independent)
    if cause is None:
        return Ending(JobState.FAILED, Reason.PEER_FAILED, _task_sentences(record), may_retry=independent)
    reason = causes.reason_of(cause, record.world_size)
    sentence = _final_sentence(cause, record)
    return Ending(JobState.FAILED, reason, sentence, cause=cause, may_retry=independent)


def _final_sentence(cause: Evidence, record: JobRecord) -> str:
    """Say what went wrong; of diverged calls more may be known by now than when the first rank was missed."""
    diverged = agreement.divergence(record) if cause.kind == "diverged" else None
    return diverged.sentence if diverged else causes.sentence_of(cause, record)


def _was_loss(record: JobRecord, cause: Evidence | None) -> str | None:
    """Say which workers were lost, if that is what brought the job down rather than ``cause``."""
    lost = [task for task in record.tasks if task.state is TaskState.LOST]
    if not lost:
        return None
    first = min(task.ended_at or 0.0 for task in lost)
    if cause is not None and not causes.is_communication(cause) and cause.at <= first:
        return None
    return " ".join(task.sentence for task in lost)


def _task_sentences(record: JobRecord) -> str:
    told = [f"node {task.node_rank}: {task.sentence}" for task in record.tasks if task.sentence]
    return "; ".join(told) or "A task ended without success and without saying why."
