"""A worker that was killed: the next one to come leaves nothing running, loses no line, and tells the true end."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpulayer import plane as planes
from gpulayer.plane import Plane
from gpulayer.spec.job import CommandJob
from gpulayer.spec.reports import TaskRunning
from gpulayer.spec.states import JobState, Reason, TaskState
from tests.left_running import left_running, wait_until_none_is_left
from tests.waiting import wait_for
from tests.worker.recording import RecordingPlane
from tests.worker.standing import Started, ended, guards_of, printed, run, signals


@pytest.fixture
def plane(home: Path) -> Iterator[Plane]:
    opened = planes.open(home, process="cli")
    yield opened
    opened.close()


def guard_of(worker: Started) -> int:
    (guard,) = guards_of(worker.process.pid)
    return guard


def test_lines_and_files_of_a_killed_worker_come_with_its_next_start(home: Path, plane: Plane, tmp_path: Path) -> None:
    script = f"echo up; {signals(tmp_path / 'go')}; echo file > out; echo late; touch {tmp_path / 'said'}; sleep 600"
    with Started("--name", "red") as worker:
        job = run(plane, script)
        printed(plane, job.id, "up")
        worker.signal(signal.SIGSTOP)  # what is printed now can't be sent before it is killed
        (tmp_path / "go").touch()
        wait_for((tmp_path / "said").exists, within=30.0)
        worker.process.kill()
        worker.ended()
    found = ended(plane, job.id)
    assert (found.state, found.reason) == (JobState.LOST, Reason.WORKER_LOST)
    assert found.sentence == "red was lost: its process ended without a word."

    with Started("--name", "red", "--idle-timeout", "0.5") as worker:
        assert worker.ended() == 0
        words = worker.words()

    assert (
        f"{job.id} attempt 1, node 0: left by a worker that was killed; its ranks are gone, 1 lines and 1 files sent" in words
    )
    assert [line.text for line in plane.lines(job.id)] == ["up", "late"]
    assert [each.path for each in plane.artifacts(job.id)] == ["node0/out"]
    assert not list((home / "tasks").iterdir())
    assert not list((home / "work").iterdir())


def test_what_left_its_session_and_lost_worker_and_guard_at_once_is_killed_by_the_next_start(home: Path, plane: Plane) -> None:
    with Started("--name", "red") as worker:
        job = run(plane, "setsid sleep 600 & echo up; sleep 600")
        printed(plane, job.id, "up")
        guard = guard_of(worker)
        os.kill(worker.process.pid, signal.SIGSTOP)
        os.kill(guard, signal.SIGKILL)
        worker.process.kill()
        worker.ended()
    assert any("sleep 600" in words for words in left_running(home).values())

    with Started("--name", "red", "--idle-timeout", "0.5") as worker:
        assert worker.ended() == 0

    assert wait_until_none_is_left(home) == {}
    assert ended(plane, job.id).state is JobState.LOST


def test_an_end_that_the_plane_did_not_hear_is_told_by_the_next_start(
    fleet: Callable[..., Any], tmp_path: Path, home: Path
) -> None:
    plane = RecordingPlane(CommandJob(command=("/bin/sh", "-c", f"echo up; {signals(tmp_path / 'go')}; echo done > out")))
    first = fleet(plane)
    plane.wait_for(lambda: "up" in plane.text())
    plane.change(away=True)
    (tmp_path / "go").touch()
    ending = home / "tasks" / f"{plane.job_id}.1.0" / "ending.json"
    plane.wait_for(ending.exists)
    first.die()
    plane.change(away=False)

    first.start_again()

    (told,) = plane.wait_ended()
    assert (told.state, told.reason) == (TaskState.SUCCEEDED, Reason.DONE)
    assert len(plane.of(TaskRunning)) == 1
    assert b"done\n" in plane.blobs.values()


def test_a_running_task_of_which_nothing_is_here_is_told_as_lost_and_not_run_again(fleet: Callable[..., Any]) -> None:
    plane = RecordingPlane(CommandJob(command=("/bin/sh", "-c", "echo again")))
    plane.launched = True
    fleet(plane)

    (told,) = plane.wait_ended()

    assert (told.state, told.reason) == (TaskState.LOST, Reason.WORKER_LOST)
    assert plane.text() == ""


def test_what_was_left_under_a_key_that_was_taken_away_is_cleared_by_the_next_start(
    fleet: Callable[..., Any], tmp_path: Path, home: Path
) -> None:
    plane = RecordingPlane(CommandJob(command=("/bin/sh", "-c", f"echo up; {signals(tmp_path / 'go')}; echo done > out")))
    first = fleet(plane)
    plane.wait_for(lambda: "up" in plane.text())
    plane.change(away=True)
    (tmp_path / "go").touch()
    (left,) = (home / "tasks").iterdir()
    plane.wait_for((left / "ending.json").exists)
    first.die()

    # Which joined anew: another worker of the same folder.
    fleet(RecordingPlane(CommandJob(command=("/bin/sh", "-c", "true"))), leased=True)

    wait_for(
        lambda: not left.exists() and not list((home / "work").glob(f"{plane.job_id}*")), within=30.0, what="all is cleared"
    )
