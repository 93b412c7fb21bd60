"""Whose lease has passed, and what a plane that could not hear may conclude."""

from __future__ import annotations

import pytest

from gpulayer.control.engine.leases import Hearing, callers_gone, lost_workers
from gpulayer.spec.states import JobState, TaskState, WorkerState, may_move

BEAT_S = 1.0


def test_a_worker_is_lost_when_its_lease_has_passed() -> None:
    heard = {"wkr-x": 100.0, "wkr-y": 150.0}

    assert lost_workers(heard, 0.0, 190.0, lease_s=90.0) == ()
    assert lost_workers(heard, 0.0, 190.1, lease_s=90.0) == ("wkr-x",)
    assert lost_workers(heard, 0.0, 241.0, lease_s=90.0) == ("wkr-x", "wkr-y")


def test_only_time_in_which_the_plane_could_hear_counts() -> None:
    heard = {"wkr-x": 100.0}

    assert lost_workers(heard, hearing_since=1000.0, now=1090.0, lease_s=90.0) == ()
    assert lost_workers(heard, hearing_since=1000.0, now=1091.0, lease_s=90.0) == ("wkr-x",)


def test_a_caller_is_gone_after_the_lease_of_its_own_job() -> None:
    heard = {"job-a": 0.0, "job-b": 0.0}

    assert callers_gone(heard, 0.0, 61.0, {"job-a": 60.0, "job-b": 600.0}) == ("job-a",)


def test_a_caller_that_was_never_heard_has_a_full_period_from_when_it_could_be() -> None:
    assert callers_gone({}, 100.0, 160.0, {"job-a": 60.0}) == ()
    assert callers_gone({}, 100.0, 161.0, {"job-a": 60.0}) == ("job-a",)


def test_a_plane_that_ticks_in_time_hears_without_a_break() -> None:
    hearing = Hearing.begin(100.0)
    for now in (101.0, 102.0, 104.5):
        hearing = hearing.tick(now, BEAT_S)

    assert hearing == Hearing(hearing_since=100.0, ticked_at=104.5)


@pytest.mark.parametrize("now", [104.0, 5000.0, 99.0], ids=["late", "after a long sleep", "with its clock set back"])
def test_after_a_tick_that_came_out_of_time_everyone_gets_a_full_period(now: float) -> None:
    hearing = Hearing.begin(100.0).tick(now, BEAT_S)

    assert hearing.hearing_since == now
    assert lost_workers({"wkr-x": 100.0}, hearing.hearing_since, now + 90.0, lease_s=90.0) == ()


WORKER_STORIES = [
    ("online", "draining", True),
    ("online", "lost", True),
    ("draining", "lost", True),
    ("draining", "online", False),
    ("lost", "online", True),
    ("lost", "draining", True),
    ("lost", "gone", True),
    ("gone", "online", False),
    ("gone", "lost", False),
]


@pytest.mark.parametrize(("old", "new", "may"), WORKER_STORIES)
def test_a_worker_moves_as_its_table_says(old: str, new: str, may: bool) -> None:
    assert may_move(WorkerState(old), WorkerState(new)) is may


def test_tables_are_told_apart_where_their_states_share_a_word() -> None:
    assert may_move(JobState.RUNNING, JobState.QUEUED)
    assert not may_move(TaskState.RUNNING, TaskState.ASSIGNED)
    assert not may_move(TaskState.LOST, TaskState.RUNNING)
