"""A worker that can't reach its plane: for a while nothing is lost, after a lease it kills what the plane has given up."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpulayer.spec.job import CommandJob
from gpulayer.spec.reports import TaskRunning
from gpulayer.spec.states import Reason, TaskState
from gpulayer.worker.guarded import Guarded
from gpulayer.worker.lease import Lease, clock
from gpulayer.worker.torchrun import Launch
from tests.left_running import left_running
from tests.worker.recording import RecordingPlane
from tests.worker.standing import signals

Fleet = Callable[..., Any]


def shell(script: str, **fields: Any) -> CommandJob:
    return CommandJob(command=("/bin/sh", "-c", script), **fields)


def test_a_lease_counts_from_the_question_and_not_from_its_answer() -> None:
    lease = Lease(now=100.0, seconds=90.0)
    assert lease.poll_s == 30.0

    lease.renew(asked_at=110.0, seconds=60.0)

    assert not lease.passed(169.9)
    assert lease.passed(170.0)


def test_ranks_go_on_while_the_plane_is_away_for_less_than_a_lease_and_their_lines_catch_up(
    fleet: Fleet, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plane = RecordingPlane(
        shell(f"echo before; {signals(tmp_path / 'go')}; echo meanwhile; echo file > out; touch {tmp_path}/done")
    )
    fleet(plane, leased=True)
    plane.wait_for(lambda: "before" in plane.text())

    plane.change(away=True)
    (tmp_path / "go").touch()
    plane.wait_for(lambda: (tmp_path / "done").exists())
    assert "meanwhile" not in plane.text()
    plane.change(away=False)

    (ended,) = plane.wait_ended()
    assert (ended.state, ended.reason) == (TaskState.SUCCEEDED, Reason.DONE)
    assert plane.text() == "before\nmeanwhile\n"
    assert plane.refused > 1
    told = [line for line in caplog.messages if "the plane " in line]
    assert [line.split(",")[0] for line in told] == ["the plane does not answer", "the plane answers again"]
    assert b"file\n" in plane.blobs.values()


def test_a_worker_that_heard_nothing_for_a_lease_kills_its_ranks_and_tells_their_end_when_the_plane_is_back(
    fleet: Fleet, home: Path
) -> None:
    plane = RecordingPlane(shell("trap '' TERM; echo up; echo $$ > pid; while :; do sleep 0.05; done"))
    plane.lease_s = 2.0
    fleet(plane, leased=True)
    plane.wait_for(lambda: "up" in plane.text())

    plane.change(away=True)

    plane.wait_for(lambda: not [words for words in left_running(home).values() if "sleep" in words or "/bin/sh" in words], 15)
    assert plane.of(TaskRunning)
    plane.change(away=False)
    (ended,) = plane.wait_ended()
    assert (ended.state, ended.reason) == (TaskState.LOST, Reason.WORKER_LOST)
    assert "a lease of 2 s" in ended.sentence


def test_while_an_answer_is_lost_on_the_way_a_second_question_keeps_the_lease(fleet: Fleet, tmp_path: Path) -> None:
    plane = RecordingPlane(shell(f"echo up; {signals(tmp_path / 'go')}"))
    plane.lease_s = 1.0
    fleet(plane, leased=True)
    plane.wait_for(lambda: "up" in plane.text())

    plane.change(swallowing=True)
    plane.wait_for(lambda: plane.asked_beside > 5)  # two a second at most: the lease of the lost question is long over
    plane.change(swallowing=False)
    (tmp_path / "go").touch()

    assert plane.wait_ended()[0].state is TaskState.SUCCEEDED


def test_an_answer_that_a_later_one_overtook_does_not_shorten_the_lease() -> None:
    lease = Lease(now=100.0, seconds=90.0)
    lease.renew(asked_at=150.0, seconds=90.0)
    lease.renew(asked_at=110.0, seconds=90.0)
    assert not lease.passed(239.9)


def test_a_worker_whose_plane_knows_by_locks_that_it_lives_has_no_lease(fleet: Fleet, tmp_path: Path) -> None:
    plane = RecordingPlane(shell(f"echo up; {signals(tmp_path / 'go')}"))
    plane.lease_s = 0.1
    fleet(plane)
    plane.wait_for(lambda: "up" in plane.text())

    plane.change(away=True)
    plane.wait_for(lambda: plane.refused > 2)
    plane.change(away=False)
    (tmp_path / "go").touch()

    assert plane.wait_ended()[0].state is TaskState.SUCCEEDED


def test_a_worker_that_the_plane_forgot_registers_again_and_its_task_goes_on(fleet: Fleet, tmp_path: Path) -> None:
    plane = RecordingPlane(shell(f"echo up; {signals(tmp_path / 'go')}"))
    fleet(plane, leased=True)
    plane.wait_for(lambda: "up" in plane.text())

    plane.change(away=True)
    plane.forget_workers()
    plane.wait_for(lambda: plane.refused > 1)
    plane.change(away=False)
    (tmp_path / "go").touch()

    assert plane.wait_ended()[0].state is TaskState.SUCCEEDED


def test_the_guard_of_a_halted_worker_kills_when_the_lease_has_passed(tmp_path: Path) -> None:
    guard = Guarded(tmp_path / "guard.log", lambda: None)
    try:
        guard.hold([tmp_path / "lock"])
        guard.lease(clock() + 60.0)
        guard.start(Launch(("/bin/sh", "-c", "trap '' TERM; sleep 600"), dict(os.environ), "/"), tmp_path, tmp_path / "spool")
        assert not guard.await_over(0.2)

        guard.lease(clock() + 0.5)  # and then its worker says nothing more

        assert guard.await_over(10.0)
        assert (guard.expired, guard.told, guard.exit_code) == (True, True, -9)
    finally:
        guard.close()
