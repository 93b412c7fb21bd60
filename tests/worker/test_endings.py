"""What is made of the ends that were seen: evidence, and the end of the task."""

from __future__ import annotations

import pytest

from gpulayer.spec.causes import Evidence
from gpulayer.spec.rank_messages import Left, Raised, Recording
from gpulayer.spec.records import Stop
from gpulayer.spec.states import Reason, TaskState
from gpulayer.worker import evidence, stopping

KILLED = evidence.of_exit(0, 1, -9, 1.0)
CLOSED = Evidence(kind="communication", node_rank=0, rank=0, exit_code=1)
CANCEL = Stop(reason=Reason.CANCELLED_BY_USER)
PEER = Stop(reason=Reason.PEER_FAILED)


def ending(**given: object) -> tuple[TaskState, Reason, int | None]:
    facts = {"stop": None, "evidence": (), "exit_code": 0, "well": False, "failed_call": False, **given}
    found = stopping.of_task(**facts)  # type: ignore[arg-type]
    return (found.state, found.reason, found.exit_code)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, (TaskState.SUCCEEDED, Reason.DONE, 0)),
        ({"exit_code": -6, "well": True}, (TaskState.SUCCEEDED, Reason.DONE, 0)),
        ({"exit_code": 1, "evidence": (KILLED,)}, (TaskState.FAILED, Reason.SIGNALLED, 137)),
        ({"exit_code": 1, "evidence": (CLOSED, KILLED)}, (TaskState.FAILED, Reason.SIGNALLED, 137)),
        ({"exit_code": 1, "evidence": (CLOSED,)}, (TaskState.FAILED, Reason.PEER_FAILED, 1)),
        ({"exit_code": 1, "evidence": (CLOSED,), "stop": PEER}, (TaskState.CANCELLED, Reason.PEER_FAILED, 143)),
        ({"exit_code": 1, "evidence": (KILLED,), "stop": CANCEL}, (TaskState.FAILED, Reason.SIGNALLED, 137)),
        ({"exit_code": 1, "failed_call": True, "stop": PEER}, (TaskState.FAILED, Reason.USER_ERROR, 1)),
        ({"exit_code": 0, "stop": CANCEL}, (TaskState.CANCELLED, Reason.CANCELLED_BY_USER, 0)),
        ({"exit_code": 0, "well": True, "stop": CANCEL}, (TaskState.SUCCEEDED, Reason.DONE, 0)),
        ({"exit_code": -9, "stop": CANCEL}, (TaskState.CANCELLED, Reason.CANCELLED_BY_USER, 137)),
        ({"exit_code": None, "stop": CANCEL}, (TaskState.CANCELLED, Reason.CANCELLED_BY_USER, 143)),
        ({"exit_code": 1, "stop": Stop(reason=Reason.TIMEOUT)}, (TaskState.TIMED_OUT, Reason.TIMEOUT, 143)),
        ({"exit_code": 2}, (TaskState.FAILED, Reason.EXITED, 2)),
    ],
)
def test_the_end_of_a_task(given: dict[str, object], expected: tuple[TaskState, Reason, int | None]) -> None:
    assert ending(**given) == expected


def test_a_clean_goodbye_is_no_evidence() -> None:
    assert evidence.of_left(0, 0, Left(calls=0, exit_code=0), 1.0) is None
    assert evidence.of_exit(0, 0, 0, 1.0) is None
    assert evidence.of_agent(0, "torchrun", 0, 1.0, met=True) is None


@pytest.mark.parametrize(("communication", "kind"), [(False, "exception"), (True, "communication")])
def test_an_exception_in_a_goodbye(communication: bool, kind: str) -> None:
    left = Left(calls=1, exit_code=1, error=Raised(module="m", qualname="E", message="x", communication=communication))
    found = evidence.of_left(0, 3, left, 1.0)

    assert found is not None
    assert (found.kind, found.rank, found.sentence) == (kind, 3, "Rank 3 raised E: x")
    assert found.error is not None
    assert found.error.communication is communication


@pytest.mark.parametrize(
    ("status", "error", "broken_off"),
    [
        ("interrupted", None, True),
        ("failed", Raised(module="lightning", qualname="SIGTERMException"), True),
        ("failed", Raised(module="builtins", qualname="ValueError"), False),
    ],
)
def test_a_call_that_a_stop_ended_is_no_failure_of_its_own(status: str, error: Raised | None, broken_off: bool) -> None:
    assert evidence.is_broken_off(Recording(call=0, status=status, error=error)) is broken_off  # type: ignore[arg-type]


def test_an_agent_that_ends_before_any_rank_came_up_did_not_meet_the_others() -> None:
    found = evidence.of_agent(1, "torchrun", 1, 1.0, met=False)

    assert found is not None
    assert (found.kind, found.rank) == ("rendezvous", None)


@pytest.mark.parametrize(
    ("exit_code", "terminated", "killed", "echo"),
    [
        (-15, True, False, True),
        (143, True, False, True),
        (-15, False, False, False),
        (-9, True, False, False),
        (-9, True, True, True),
        (-11, True, True, False),
        (1, True, True, False),
    ],
)
def test_which_ends_are_only_what_our_own_signals_bring_about(
    exit_code: int, terminated: bool, killed: bool, echo: bool
) -> None:
    found = evidence.of_exit(0, 0, exit_code, 1.0)

    assert found is not None
    assert evidence.is_echo(found, terminated=terminated, killed=killed) is echo
