"""The one table of legal moves."""

from __future__ import annotations

import pytest

from gpulayer.spec.states import JOB_MOVES, TASK_MOVES, JobState, TaskState, may_move


@pytest.mark.parametrize("state", [s for s in [*JobState, *TaskState] if s.terminal])
def test_nothing_leaves_a_terminal_state(state: JobState | TaskState) -> None:
    assert not any(may_move(state, new) for new in type(state))


def test_every_state_can_be_reached() -> None:
    assert {new for news in JOB_MOVES.values() for new in news} == set(JobState)
    assert {new for news in TASK_MOVES.values() for new in news} == set(TaskState) - {TaskState.ASSIGNED}


def test_a_queued_job_does_not_succeed_and_a_running_one_may_be_queued_again() -> None:
    assert not may_move(JobState.QUEUED, JobState.SUCCEEDED)
    assert may_move(JobState.RUNNING, JobState.QUEUED)
