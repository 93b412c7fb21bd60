"""What the command line says of a job."""

from __future__ import annotations

import json

import pytest

from gpulayer.cli.job_facts import COLUMNS, all_facts, calls_made, job_facts, shown, stands, took, what
from gpulayer.spec.job import CommandJob, DistributedJob, FunctionJob, Job
from gpulayer.spec.records import JobRecord, TaskRecord
from gpulayer.spec.states import JobState, Phase, Reason, TaskState

TRAIN = DistributedJob(entrypoint="train.py", args=("--lr", "0.1"), num_workers=2, procs_per_worker=2, name="digits")


def record(**given: object) -> JobRecord:
    return JobRecord.model_validate({"id": "job-1", "spec": TRAIN, "created_at": 100.0, **given})


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (CommandJob(command=("python", "x.py")), "python x.py"),
        (CommandJob(command=("python", "-m", "gpulayer.runtime", "train.py", "--lr", "1")), "train.py --lr 1"),
        (FunctionJob(function="pkg:run"), "pkg:run"),
        (TRAIN, "train.py --lr 0.1"),
        (TRAIN.model_copy(update={"entrypoint": "../../train.py", "cwd": "abs/tmp"}), "train.py --lr 0.1"),
    ],
)
def test_what_it_runs_is_as_typed(spec: Job, words: str) -> None:
    assert what(record(spec=spec)) == words


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"state": JobState.QUEUED, "reason": Reason.WAITING_FOR_WORKERS}, "queued (waiting_for_workers)"),
        ({"state": JobState.RUNNING, "phase": Phase.HOLDING}, "running (holding)"),
        ({"state": JobState.RUNNING, "phase": Phase.RUNNING}, "running"),
        ({"state": JobState.SUCCEEDED, "reason": Reason.DONE}, "succeeded"),
        ({"state": JobState.CANCELLED, "reason": Reason.CALLER_GONE}, "cancelled (caller_gone)"),
    ],
)
def test_a_state_is_made_precise_once(given: dict[str, object], words: str) -> None:
    assert stands(record(**given)) == words


def test_it_ran_until_its_end_or_until_now() -> None:
    assert took(record()) is None
    assert took(record(running_at=10.0), now=15.0) == "5s"
    assert took(record(running_at=10.0, ended_at=17.0), now=99.0) == "7s"


def test_the_facts_are_json_with_the_promised_keys() -> None:
    task = TaskRecord(job_id="job-1", attempt=1, node_rank=0, worker_id="wkr-1", state=TaskState.FAILED, exit_code=3)
    facts = json.loads(json.dumps(all_facts(record(tasks=(task,)))))
    assert {"id", "state", "phase", "reason", "created_at", "num_workers", "procs_per_worker"} <= facts.keys()
    assert facts["tasks"][0]["exit_code"] == 3
    assert facts["spec"]["entrypoint"] == "train.py"
    assert job_facts(record()).items() <= all_facts(record()).items()


def test_people_see_the_shape_and_each_task() -> None:
    task = TaskRecord(job_id="job-1", attempt=1, node_rank=1, worker_id="wkr-1", state=TaskState.FAILED, exit_code=3)
    seen = shown(record(tasks=(task,), sentence="rank 3 raised ValueError"))
    assert seen["shape"] == "2 x 2"
    assert seen["because"] == "rank 3 raised ValueError"
    assert seen["tasks"] == "node1 on wkr-1: failed, exit code 3"


def test_a_row_has_every_column() -> None:
    assert [make(record()) for make in COLUMNS.values()][:4] == ["job-1", "digits", "queued", "2 x 2"]


@pytest.mark.parametrize(
    ("state", "call", "status"),
    [
        (JobState.RUNNING, {"begun": True}, "running"),
        (JobState.RUNNING, {}, "waiting"),
        (JobState.CANCELLED, {"begun": True}, "cancelled"),
        (JobState.FAILED, {}, "never begun"),
        (JobState.SUCCEEDED, {"begun": True, "settled": True}, "ok"),
    ],
)
def test_a_call_of_an_ended_job_does_not_run(state: JobState, call: dict[str, bool], status: str) -> None:
    go = {"fingerprint": {"call": 0, "function": "fit", "trainer": 0, "module": "m", "shapes": ""}}
    job = record(state=state, calls=[{"call": 0, "go": go, **call}])
    assert [each["status"] for each in calls_made(job)] == [status]
