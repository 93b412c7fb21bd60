"""From a job that did not end well to the exception that the caller gets."""

from __future__ import annotations

from types import TracebackType

from gpulayer import errors
from gpulayer.spec.calls import CallView, ErrorRecord, Outcome
from gpulayer.spec.records import JobRecord
from gpulayer.spec.states import Reason

_PASSING = frozenset(
    {Reason.WORKER_LOST, Reason.SIGNALLED, Reason.RENDEZVOUS_FAILED, Reason.STRAGGLER, Reason.PEER_FAILED, Reason.TIMEOUT}
)


def may_pass(job: JobRecord, record: ErrorRecord | None) -> bool:
    """Whether the same call may go well another time: it was broken off from outside, and raised nothing of its own."""
    return job.reason in _PASSING and (record is None or record.communication)


def culprit(job: JobRecord, view: CallView | None) -> tuple[ErrorRecord | None, Outcome | None]:
    """Return the error that came first (when it was an exception), and what the call left.

    That is rank 0's, but of the rank that failed first where rank 0 only saw a peer go: its hooks would tell of that.
    """
    outcomes = {} if view is None else {outcome.rank: outcome for outcome in view.outcomes}
    error = job.cause.error if job.cause is not None else None
    first = outcomes.get(job.cause.rank) if job.cause is not None and job.cause.rank is not None else None
    if first is not None and job.cause is not None and error is None and job.cause.kind == "exit":
        error = first.error  # it left as it does after the exception that it recorded
    zero = outcomes.get(0)
    saw_a_peer_go = zero is not None and zero.error is not None and zero.error.communication
    order = (first, zero) if saw_a_peer_go else (zero, first)
    known = [outcome for outcome in (*order, *outcomes.values()) if outcome is not None]
    return error, next((outcome for outcome in known if outcome.body is not None), None)


def in_words(error: BaseException) -> ErrorRecord:
    """Describe an exception of the caller's own, for the ranks of a later job that meet the same call."""
    cls = type(error)
    sentence = error.sentence if isinstance(error, errors.GPULayerError) else str(error)
    return ErrorRecord(rank=0, module=cls.__module__, qualname=cls.__qualname__, message=sentence, traceback="")


def without_our_frames(error: BaseException, ours: str) -> None:
    """Cut our own frames out of what Python prints of an error that is the user's to read."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        cause.__traceback__ = _cut(cause.__traceback__, ours)
        cause = cause.__cause__ or cause.__context__


def _cut(trace: TracebackType | None, ours: str) -> TracebackType | None:
    """End a traceback where it enters our files."""
    if trace is None or trace.tb_frame.f_code.co_filename.startswith(ours):
        return None
    at: TracebackType = trace
    while at.tb_next is not None:
        if at.tb_next.tb_frame.f_code.co_filename.startswith(ours):
            at.tb_next = None
            break
        at = at.tb_next
    return trace
