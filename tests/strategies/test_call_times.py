"""Which files of a job its script wrote outside of calls."""

from __future__ import annotations

import pytest

from gpulayer.spec.calls import CallView, Outcome
from gpulayer.spec.files import Artifact, Blob
from gpulayer.spec.job import DistributedJob
from gpulayer.spec.records import JobRecord, TaskRecord
from gpulayer.strategies import call_times


def call(number: int, *ranks: tuple[float | None, float]) -> CallView:
    outcomes = tuple(Outcome(call=number, rank=rank, status="ok", began=began, at=at) for rank, (began, at) in enumerate(ranks))
    return CallView(call=number, begun=True, outcomes=outcomes)


def job(*calls: CallView, machines: tuple[str, str] = ("a", "b")) -> JobRecord:
    tasks = tuple(
        TaskRecord(job_id="job-1", attempt=1, node_rank=node, worker_id=f"wkr-{node}", machine=machine)
        for node, machine in enumerate(machines)
    )
    spec = DistributedJob(entrypoint="x.py", num_workers=2, procs_per_worker=1)
    return JobRecord(id="job-1", spec=spec, tasks=tasks, calls=calls, created_at=100.0)


def written(at: float, node: int = 0) -> Artifact:
    return Artifact(job_id="job-1", attempt=1, path=f"node{node}/notes", blob=Blob(sha256="0" * 64, size=0), mtime=at)


TWO_CALLS = (call(0, (110.0, 120.0), (1110.0, 1121.0)), call(1, (130.0, 140.0), (1130.0, 1140.0)))


@pytest.mark.parametrize(
    ("at", "outside"),
    [(99.0, False), (105.0, True), (110.0, False), (120.0, False), (125.0, True), (130.0, False), (150.0, False)],
)
def test_a_file_is_the_scripts_when_its_time_lies_before_or_between_calls(at: float, outside: bool) -> None:
    assert call_times.outside(job(*TWO_CALLS))(written(at)) is outside


def test_each_machine_has_a_clock_of_its_own() -> None:
    says = call_times.outside(job(*TWO_CALLS))
    assert not says(written(1115.0, node=1))
    assert says(written(1125.0, node=1))
    assert says(written(125.0, node=1))


def test_nodes_of_one_machine_share_their_files_so_all_their_ranks_count() -> None:
    calls = (call(0, (110.0, 120.0), (110.5, 124.0)), call(1, (130.0, 140.0), (129.0, 140.0)))
    says = call_times.outside(job(*calls, machines=("a", "a")))
    assert [says(written(at)) for at in (122.0, 125.0, 129.5)] == [False, True, False]


def test_what_a_rank_did_not_tell_is_no_reason_to_leave_a_file_out() -> None:
    assert not call_times.outside(job(call(0, (None, 120.0), (None, 120.0))))(written(105.0))


def test_what_a_job_wrote_that_came_to_no_call_is_its_scripts() -> None:
    assert call_times.outside(job())(written(105.0))
