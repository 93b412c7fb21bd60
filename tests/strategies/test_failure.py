"""From a job that did not end well to the caller's exception."""

from __future__ import annotations

from gpulayer.errors import PreparationFailed
from gpulayer.spec.job import CommandJob
from gpulayer.spec.records import JobRecord
from gpulayer.spec.states import JobState, Reason
from gpulayer.strategies import failure


def test_where_to_look_is_said_once_and_for_this_job() -> None:
    told = str(PreparationFailed("The input s3://x could not be fetched."))
    job = JobRecord(
        id="job-1",
        spec=CommandJob(command=("x",)),
        state=JobState.FAILED,
        reason=Reason.PREPARATION_FAILED,
        sentence=f"node 0: {told}",
    )
    assert str(failure.job_error(job)) == (
        "job-1: node 0: The input s3://x could not be fetched. `gpulayer jobs logs job-1` shows what every rank printed."
    )
