"""The answer to "why does it wait?"."""

from __future__ import annotations

from gpulayer.control.engine import placement
from gpulayer.spec.records import Explanation, JobRecord, Snapshot, WorkerRecord
from tests.control.engine.given import cancelled, command, gang, gpus, queued, running, worker


def explain(record: JobRecord, workers: list[WorkerRecord], *others: JobRecord) -> Explanation:
    return placement.explain(record, Snapshot(queued=others, workers=tuple(workers)), 0.0)


def test_a_job_that_could_start_says_where() -> None:
    told = explain(queued(gang(2)), [worker("x"), worker("y")])

    assert told.sentence == "It can start now on wkr-x, wkr-y."
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
        "It would start if wkr-near: the job's resources allow torch 2.1.0; wkr-fit: a task slot on it becomes free."
    )


def test_missing_workers_are_counted() -> None:
    assert explain(queued(gang(3)), [worker("x")]).nearest == "It would start if 2 more workers register."
    assert explain(queued(command()), []).nearest == "It would start if 1 more worker registers."


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


def test_a_job_that_does_not_wait_says_what_it_is() -> None:
    assert explain(running(command()), []).sentence == "It is running."
    assert explain(cancelled(running(command())), []).sentence == "It is running."
    assert explain(cancelled(queued(command())), []).sentence == "It is cancelled. Cancelled as asked."


def test_a_job_that_was_only_thought_of_is_not_added_to_the_queue() -> None:
    asked = queued(command(), "dry")

    assert explain(asked, [worker("x")], queued(command(), "a", at=-1.0)).sentence.startswith("waits for a worker")
