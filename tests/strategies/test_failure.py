"""From a job that did not end well to the caller's exception."""

from __future__ import annotations

from gpulayer.client import raising
from gpulayer.spec.calls import CallView, ErrorRecord, Outcome
from gpulayer.spec.causes import Evidence
from gpulayer.spec.files import Blob
from gpulayer.spec.job import CommandJob
from gpulayer.spec.records import JobRecord
from gpulayer.spec.states import JobState, Reason
from gpulayer.strategies import failure


def a_failed_job(reason: Reason, sentence: str, cause: Evidence | None = None) -> JobRecord:
    given = {"id": "job-1", "spec": CommandJob(command=("x",)), "state": JobState.FAILED}
    return JobRecord(**given, reason=reason, sentence=sentence, cause=cause)


def test_where_to_look_is_said_for_this_job() -> None:
    job = a_failed_job(Reason.USER_ERROR, "rank 0 exited with 1.")
    assert str(raising.job_error(job)) == (
        "job-1: rank 0 exited with 1. `gpulayer jobs logs job-1` shows what every rank printed."
    )


def test_a_failed_preparation_has_no_logs_of_ranks_and_says_what_helps_where_that_is_known() -> None:
    job = a_failed_job(Reason.PREPARATION_FAILED, "node 0: The input s3://x could not be fetched.")
    assert str(raising.job_error(job)) == "job-1: node 0: The input s3://x could not be fetched."

    cause = Evidence(kind="preparation", node_rank=0, sentence="It can't be written.", next_step="Free some space.")
    job = a_failed_job(Reason.PREPARATION_FAILED, "node 0: It can't be written.", cause)
    assert str(raising.job_error(job)) == "job-1: node 0: It can't be written. Free some space."


def test_what_a_failed_call_left_is_rank_0s_whichever_rank_failed_first() -> None:
    raised = ErrorRecord(rank=1, module="builtins", qualname="ValueError", message="no", traceback="")
    body = Blob(sha256="0" * 64, size=1)
    first = Outcome(call=0, rank=1, status="failed", at=1.0, body=body.model_copy(update={"sha256": "1" * 64}), error=raised)
    zero = Outcome(call=0, rank=0, status="failed", at=2.0, body=body)
    job = a_failed_job(
        Reason.USER_ERROR, "rank 1 raised.", Evidence(kind="exit", node_rank=0, rank=1, sentence="It exited with 1.")
    )

    assert failure.culprit(job, CallView(call=0, outcomes=(first, zero))) == (raised, zero)
    gone = raised.model_copy(update={"rank": 0, "communication": True})
    saw_it_go = zero.model_copy(update={"error": gone})
    assert failure.culprit(job, CallView(call=0, outcomes=(first, saw_it_go))) == (raised, first)
    without = zero.model_copy(update={"body": None})
    assert failure.culprit(job, CallView(call=0, outcomes=(first, without))) == (raised, first)
    assert failure.culprit(job, CallView(call=0, outcomes=(without,))) == (None, None)
