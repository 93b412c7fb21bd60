"""The answer to "why does it wait?"."""

from __future__ import annotations

from typing import Any

import pytest

from gpulayer.control.engine import placement, transitions
from gpulayer.spec.records import Explanation, JobRecord, Snapshot, WorkerRecord
from gpulayer.spec.reports import TaskPhase, TaskWaits
from gpulayer.spec.states import Phase, Reason, TaskState
from tests.control.engine.given import (
    CALLS,
    arrives,
    cancelled,
    command,
    ended,
    fault,
    gang,
    gpus,
    hear,
    of,
    placed,
    queued,
    ready,
    running,
    worker,
)


def explain(record: JobRecord, workers: list[WorkerRecord], *others: JobRecord) -> Explanation:
    return placement.explain(record, Snapshot(queued=others, workers=tuple(workers)), 0.0)


def test_a_job_that_could_start_says_where() -> None:
    told = explain(queued(gang(2)), [worker("x"), worker("y")])

    assert told.sentence == "It can start now on x, y."
    assert told.nearest == ""


def test_every_worker_answers() -> None:
    told = explain(queued(command(resources={"torch": ">=2.2"})), [worker("x", torch="2.1.0"), worker("y", busy=1)])

    assert {verdict.worker_id: (verdict.compatible, verdict.sentences) for verdict in told.verdicts} == {
        "wkr-x": (False, ("torch 2.1.0 does not satisfy >=2.2",)),
        "wkr-y": (True, ("is busy",)),
    }


def test_the_nearest_change_is_at_the_workers_that_lack_least() -> None:
    asks = gang(2, resources={"torch": ">=2.2", "cpus": 4})
    workers = [worker("far", torch="2.1.0", cpus=1), worker("near", torch="2.1.0"), worker("fit", busy=1)]

    told = explain(queued(asks), workers)

    assert told.sentence == "no eligible workers: the job needs 2, 1 could take a share"
    assert told.nearest == (
        "It would start on near if the job's resources allow torch 2.1.0 and on fit if a task slot on it becomes free."
    )


def test_missing_workers_are_counted() -> None:
    assert explain(queued(gang(3)), [worker("x")]).nearest == "It would start if 2 more workers join."
    assert explain(queued(command()), []).nearest == "It would start if 1 more worker joins."


@pytest.mark.parametrize(
    ("asks", "workers", "nearest"),
    [
        (command(resources={"gpu_count": 1}), [worker("x"), worker("y")], "if a worker with 1 cuda device joins"),
        (gang(2, resources={"gpu_count": 2}), [worker("x"), worker("y")], "if 2 workers with 2 cuda devices each join"),
        (gang(2, resources={"gpu_count": 2}), [worker("x")], "if 2 workers with 2 cuda devices each join"),
        (
            command(resources={"gpu_count": 2}),
            [worker("x"), worker("y", devices=gpus("m", 1))],
            "on y if the job asks for 1 cuda device on each worker",
        ),
        (
            command(resources={"gpu_count": 1}),
            [worker("x"), worker("y", busy=1, devices=gpus("m", 1))],
            "on y if a task slot on it becomes free",
        ),
    ],
)
def test_where_no_device_is_another_worker_has_to_join(asks: Any, workers: list[WorkerRecord], nearest: str) -> None:
    assert explain(queued(asks), workers).nearest == f"It would start {nearest}."


def test_workers_that_differ_in_torch_are_told_apart() -> None:
    told = explain(queued(gang(2)), [worker("x", torch="2.1.0"), worker("y", torch="2.2.0")])

    assert "the same torch version (now 2.1.0, 2.2.0)" in told.nearest


def test_workers_that_share_too_few_devices_say_so() -> None:
    devices = gpus("m", 1)
    workers = [worker(name, machine="m", devices=devices) for name in "xy"]

    told = explain(queued(gang(2, resources={"accelerator": "cuda", "gpu_count": 1})), workers)

    assert told.nearest == "It would start if the workers that are free had more devices."


def test_jobs_that_come_first_are_counted_in() -> None:
    first = queued(command(), "first", at=1.0)
    urgent = queued(command(priority=90), "urgent", at=9.0)
    later = queued(command(), "later", at=5.0)

    told = explain(queued(command(), "asked", at=2.0), [worker("x"), worker("y")], later, urgent, first)

    assert told.sentence == (
        "waits for a worker: 0 of 2 compatible can take it now; 1 queued job of higher priority comes first, "
        "and a steady stream of those can keep it waiting"
    )


def test_a_reservation_is_a_reason() -> None:
    big = queued(gang(2), "big", at=1.0)

    told = explain(queued(command(), "small", at=2.0), [worker("x"), worker("y", busy=1)], big)

    assert told.verdicts[0].sentences == ("is reserved for job-big, which waits for more workers",)


def gated() -> JobRecord:
    record = placed(gang(2))
    return hear(hear(record, ready(record, 0)), ready(record, 1))


def waiting_for_a_device() -> JobRecord:
    record = placed(command())
    return hear(record, TaskWaits(**of(record, 0), sentence="GPU-1 is held by another home"))


def holding() -> JobRecord:
    record = running(gang(2, calls=CALLS))
    return hear(hear(record, arrives(record, 0)), arrives(record, 1))


def failing() -> JobRecord:
    record = running(gang(2))
    return hear(record, fault(record, 1, kind="exit", rank=1, exit_code=3))


def uploading() -> JobRecord:
    record = running(command())
    return hear(record, TaskPhase(**of(record, 0), phase=Phase.UPLOADING))


def timed_out(*, over: bool) -> JobRecord:
    record = transitions.tick(running(command(timeout_s=5)), 5.0).record
    return hear(record, ended(record, 0, TaskState.TIMED_OUT, Reason.TIMEOUT)) if over else record


def lost() -> JobRecord:
    return transitions.lose_tasks(running(command()), (0,), Reason.WORKER_LOST, 1.0).record


STANDINGS = [
    (placed(gang(2)), "It is being prepared on w0, w1."),
    (waiting_for_a_device(), "It is being prepared on w0. wkr-w0: GPU-1 is held by another home"),
    (gated(), "Its nodes are ready and are meeting on w0, w1."),
    (running(command()), "It runs on w0."),
    (holding(), "Its ranks hold until the caller's next call on w0, w1."),
    (cancelled(running(command())), "Its processes are being ended (cancelled_by_user)."),
    (timed_out(over=False), "Its processes are being ended. It ran for longer than its timeout of 5 s."),
    (failing(), "Its processes are being ended. A part of it has failed or was lost."),
    (uploading(), "Its processes have ended, and its outputs are being stored on w0."),
    (hear(running(command()), ended(running(command()))), "It has succeeded. Its task succeeded."),
    (hear(running(command()), ended(running(command()), 0, TaskState.FAILED, Reason.EXITED, exit_code=3)),
     "It has failed. w0 exited with code 3."),
    (cancelled(queued(command())), "It was stopped before its end. Cancelled as asked."),
    (timed_out(over=True), "It has run out of time. It ran for longer than its timeout of 5 s."),
    (lost(), "It was lost. w0 was lost."),
]  # fmt: skip


@pytest.mark.parametrize(("record", "sentence"), STANDINGS, ids=[sentence for _, sentence in STANDINGS])
def test_a_job_that_does_not_wait_says_how_it_stands(record: JobRecord, sentence: str) -> None:
    assert explain(record, []).sentence == sentence


def test_what_can_never_run_is_not_blamed_on_others() -> None:
    urgent = queued(command(priority=90), "urgent", at=9.0)

    assert explain(queued(command(resources={"cpus": 99})), [worker("x")], urgent).sentence == "no eligible worker"


def test_what_can_never_run_itself_keeps_nobody_waiting() -> None:
    never = queued(command(priority=90, resources={"cpus": 99}, on_unschedulable="queue"), "never")

    told = explain(queued(command()), [worker("x", busy=1)], never)

    assert told.sentence == "waits for a worker: 0 of 1 compatible can take it now"


def test_a_job_that_was_only_thought_of_is_not_added_to_the_queue() -> None:
    asked = queued(command(), "dry")

    assert explain(asked, [worker("x")], queued(command(), "a", at=-1.0)).sentence.startswith("waits for a worker")
