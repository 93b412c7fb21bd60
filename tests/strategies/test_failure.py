"""From a job that did not end well to the caller's exception."""

from __future__ import annotations

from gpulayer.spec.causes import Evidence
from gpulayer.spec.job import CommandJob
from gpulayer.spec.records import JobRecord
from gpulayer.spec.states import JobState, Reason
from gpulayer.strategies import failure


def a_failed_job(reason: Reason, sentence: str, cause: Evidence | None = None) -> JobRecord:
    given = {"id": "job-1", "spec": CommandJob(command=("x",)), "state": JobState.FAILED}
    return JobRecord(**given, reason=reason, sentence=sentence, cause=cause)


def test_where_to_look_is_said_for_this_job() -> None:
    job = a_failed_job(Reason.USER_ERROR, "rank 0 exited with 1.")
    assert str(failure.job_error(job)) == (
        "job-1: rank 0 exited with 1. `gpulayer jobs logs job-1` shows what every rank printed."
    )


def test_a_failed_preparation_has_no_logs_of_ranks_and_says_what_helps_where_that_is_known() -> None:
    job = a_failed_job(Reason.PREPARATION_FAILED, "node 0: The input s3://x could not be fetched.")
    assert str(failure.job_error(job)) == "job-1: node 0: The input s3://x could not be fetched."

    cause = Evidence(kind="preparation", node_rank=0, sentence="It can't be written.", next_step="Free some space.")
    job = a_failed_job(Reason.PREPARATION_FAILED, "node 0: It can't be written.", cause)
    assert str(failure.job_error(job)) == "job-1: node 0: It can't be written. Free some space."
