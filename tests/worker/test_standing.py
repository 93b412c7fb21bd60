"""``gpulayer worker start`` in a home: it serves until it is told to go, and knows itself when it comes back."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpulayer import plane as planes
from gpulayer.plane import Plane
from gpulayer.spec.states import JobState, Reason
from tests.worker.standing import Started, ended, printed, run, signals


@pytest.fixture
def plane(home: Path) -> Iterator[Plane]:
    opened = planes.open(home, process="cli")
    yield opened
    opened.close()


def test_it_says_that_it_serves_takes_one_job_and_leaves(plane: Plane) -> None:
    with Started("--name", "red", "--labels", "zone=a", "--once") as worker:
        (known,) = plane.workers()
        assert known.info.id in worker.said
        assert (known.info.name, known.info.labels, known.info.origin, known.info.owner) == (
            "red",
            {"zone": "a"},
            "local",
            None,
        )

        job = ended(plane, run(plane, "echo hi > out.txt").id)

        assert job.state is JobState.SUCCEEDED
        assert [each.path for each in plane.artifacts(job.id)] == ["node0/out.txt"]
        assert worker.ended() == 0
        words = worker.words()
    told = [f"takes {job.id} attempt 1, node 0", f"{job.id} attempt 1, node 0 ended: succeeded (done)", ": leaves"]
    assert all(words.count(each) == 1 for each in told), words
    assert plane.workers() == []


def test_a_second_start_as_the_same_worker_is_refused_with_the_pid_of_the_first(plane: Plane) -> None:
    with Started("--name", "red") as first, Started("--name", "red") as second:
        assert second.ended() == 1
        words = second.words()
        assert f"Process {first.process.pid} is the worker" in words
        assert "--work-dir" in words
        first.signal()
        assert first.ended() == 0


def test_it_comes_back_as_the_same_worker_in_another_incarnation(home: Path, plane: Plane) -> None:
    seen = []
    for _ in range(2):
        with Started("--name", "red") as worker:
            (known,) = plane.workers()
            seen.append((known.info.id, known.info.incarnation))
            worker.signal()
            assert worker.ended() == 0
            assert "waits for those" not in worker.words()
    assert seen[0][0] == seen[1][0]
    assert seen[0][1] != seen[1][1]
    kept = home / "workers" / "red" / "identity.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert json.loads(kept.read_text())["worker_id"] == seen[0][0]


def test_told_to_end_once_it_finishes_what_it_has_and_takes_no_more(plane: Plane, tmp_path: Path) -> None:
    with Started() as worker:
        first = run(plane, f"echo up; {signals(tmp_path / 'go')}; echo done")
        printed(plane, first.id, "up")
        second = run(plane, "true", on_unschedulable="queue")

        worker.signal()

        while plane.workers()[0].state != "draining":
            assert worker.process.poll() is None
        (tmp_path / "go").touch()
        assert ended(plane, first.id).state is JobState.SUCCEEDED
        assert worker.ended() == 0
    assert plane.job(second.id).state is JobState.QUEUED
    plane.cancel(second.id)


def test_told_twice_it_stops_its_task_with_the_grace_and_keeps_what_that_saved(plane: Plane) -> None:
    with Started() as worker:
        job = run(plane, "trap 'echo saved > saved; exit 0' TERM; echo up; while :; do sleep 0.05; done")
        printed(plane, job.id, "up")

        worker.signal()
        while plane.workers()[0].state != "draining":
            assert worker.process.poll() is None
        worker.signal()

        found = ended(plane, job.id)
        assert worker.ended() == 0
    assert (found.state, found.reason) == (JobState.LOST, Reason.WORKER_LOST)
    assert found.sentence == f"{found.tasks[0].worker_name}: its worker was told to end."
    assert [each.path for each in plane.artifacts(job.id)] == ["node0/saved"]


def test_sigquit_kills_its_task_at_once(plane: Plane) -> None:
    with Started() as worker:
        job = run(plane, "trap '' TERM; echo up; while :; do sleep 0.05; done")
        printed(plane, job.id, "up")

        worker.signal(signal.SIGQUIT)

        assert worker.ended() == 1
    found = ended(plane, job.id)
    assert (found.state, found.reason) == (JobState.LOST, Reason.WORKER_LOST)


def test_it_leaves_when_it_was_idle_for_long_enough_but_not_during_a_task(plane: Plane) -> None:
    with Started("--idle-timeout", "1") as worker:
        assert ended(plane, run(plane, "sleep 2").id).state is JobState.SUCCEEDED
        assert worker.ended() == 0


def test_a_worker_that_people_drain_leaves_when_it_is_done(plane: Plane) -> None:
    with Started() as worker:
        plane.drain(plane.workers()[0].info.id)
        assert worker.ended() == 0


def test_a_worker_that_people_remove_stops_everything_and_says_so(plane: Plane) -> None:
    with Started() as worker:
        job = run(plane, "echo up; sleep 600")
        printed(plane, job.id, "up")

        plane.remove_worker(plane.workers()[0].info.id)

        assert worker.ended() == 3
        assert "removed from the plane" in worker.words()
    assert ended(plane, job.id).state is JobState.LOST


def test_slots_are_how_many_tasks_it_runs_at_a_time(plane: Plane, tmp_path: Path) -> None:
    with Started("--slots", "2"):
        first = run(plane, f"{signals(tmp_path / 'go')}")
        second = run(plane, f"touch {tmp_path / 'go'}")
        assert [ended(plane, each.id).state for each in (first, second)] == [JobState.SUCCEEDED] * 2
