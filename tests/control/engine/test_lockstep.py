"""The calls of a script: when they begin, what holds them, and how they come apart."""

from __future__ import annotations

import pytest

from gpulayer.control.engine import agreement, lockstep, transitions
from gpulayer.spec.calls import CallView
from gpulayer.spec.causes import Evidence
from gpulayer.spec.records import JobRecord
from gpulayer.spec.states import JobState, Phase, Reason, TaskState
from tests.control.engine.given import (
    BLOB,
    CALLS,
    arrives,
    cancelled,
    command,
    ended,
    error,
    gang,
    hear,
    leaves,
    let_go,
    queued,
    records,
    running,
    stores,
)

FAILED, CANCELLED = TaskState.FAILED, TaskState.CANCELLED


def script(nodes: int = 2, procs: int = 2) -> JobRecord:
    return running(gang(nodes, procs, calls=CALLS))


def view(record: JobRecord, call: int = 0) -> CallView:
    return agreement.view_of(record, call)


def all_arrive(record: JobRecord, call: int = 0, now: float = 0.0) -> JobRecord:
    for rank in range(record.world_size):
        record = hear(record, arrives(record, rank, call), now)
    return record


def settled(record: JobRecord, call: int = 0, now: float = 0.0) -> JobRecord:
    """The call went well from go to files."""
    record = all_arrive(let_go(record, call, now), call, now)
    for rank in range(record.world_size):
        record = hear(record, records(record, rank, call), now)
    for node in range(len(record.tasks)):
        record = hear(record, stores(record, node, call), now)
    return record


def test_a_call_begins_when_all_ranks_have_arrived_and_the_caller_said_go() -> None:
    record = let_go(script())
    for rank in (3, 0, 1):
        record = hear(record, arrives(record, rank))
        assert not view(record).begun

    assert view(hear(record, arrives(record, 2))).begun


def test_a_go_that_comes_last_begins_the_call() -> None:
    record = all_arrive(script())
    assert record.phase is Phase.HOLDING

    record = let_go(record)

    assert view(record).begun
    assert record.phase is Phase.RUNNING


def test_a_go_may_come_before_the_job_is_placed() -> None:
    record = let_go(queued(gang(2, calls=CALLS)))

    assert view(record).go is not None
    assert record.state is JobState.QUEUED


def test_go_and_arrivals_may_be_repeated() -> None:
    record = hear(let_go(script()), arrives(script(), 0))

    assert let_go(record, module="another") == record
    assert hear(record, arrives(record, 0), 9.0) == record


def test_shapes_that_one_side_does_not_know_can_not_differ() -> None:
    record = let_go(script(1, 2), shapes="")

    assert view(all_arrive(record)).begun


def test_a_rank_may_only_speak_for_its_own_node() -> None:
    record = let_go(script(2, 1))
    from_the_other_node = arrives(record, 0).model_copy(update={"node_rank": 1, "worker_id": record.tasks[1].worker_id})

    assert hear(record, from_the_other_node) == record


# --- the caller's state -----------------------------------------------------------------------------------------------


def test_ranks_wait_for_the_callers_tensors_where_rank_0_has_others() -> None:
    record = let_go(script(1, 2), digest="edited")
    record = hear(record, arrives(record, 0, digest="fresh"))
    record = hear(record, arrives(record, 1, digest="whatever"))
    assert (view(record).needs_state, view(record).begun) == (True, False)

    record = lockstep.send_state(record, 0, BLOB, 1.0).record

    go = view(record).go
    assert go is not None
    assert go.state == BLOB
    assert (view(record).needs_state, view(record).begun) == (False, True)
    assert lockstep.send_state(record, 0, BLOB, 2.0).record == record


def test_state_that_is_the_same_is_not_asked_for() -> None:
    record = let_go(script(1, 1), digest="same")

    assert view(hear(record, arrives(record, 0, digest="same"))).begun


def test_a_caller_that_ended_can_not_be_asked_for_state() -> None:
    record = let_go(script(1, 1), digest="edited")
    record = hear(record, arrives(record, 0, digest="fresh"))

    record = lockstep.farewell(record, 1.0).record

    assert record.stop is not None
    record = hear(record, ended(record, 0, CANCELLED, Reason.PEER_FAILED))
    assert (record.state, record.reason) == (JobState.FAILED, Reason.CALLS_DIVERGED)


# --- after a call --------------------------------------------------------------------------------------------------


def test_a_call_settles_when_all_outcomes_and_all_files_are_there_and_then_the_job_holds() -> None:
    record = all_arrive(let_go(script()))
    for rank in range(4):
        record = hear(record, records(record, rank), 5.0)
    record = hear(record, stores(record, 1), 6.0)
    assert not view(record).settled
    assert record.hold_since is None

    record = hear(record, stores(record, 0), 7.0)

    assert view(record).settled
    assert (record.hold_since, record.phase) == (7.0, Phase.HOLDING)


def test_outcomes_and_stores_may_be_repeated() -> None:
    record = settled(script())

    assert hear(record, records(record, 2), 9.0) == record
    assert hear(record, stores(record, 1), 9.0) == record


def test_the_next_go_ends_the_hold() -> None:
    record = settled(script())

    record = let_go(record, 1)
    assert (record.hold_since, record.phase) == (None, Phase.RUNNING)
    assert view(all_arrive(record, 1), 1).begun


def test_a_whole_script_succeeds() -> None:
    record = settled(settled(script()), 1)
    record = lockstep.farewell(record, 20.0).record
    assert (record.hold_since, record.caller_ended) == (None, True)
    for rank in range(4):
        record = hear(record, leaves(record, rank, 2))
    for node in range(2):
        record = hear(record, ended(record, node))

    assert (record.state, record.reason) == (JobState.SUCCEEDED, Reason.DONE)


def test_after_a_cancel_the_job_is_cancelled_even_if_its_tasks_ended_well() -> None:
    record = cancelled(settled(script(1, 1)))
    record = hear(record, ended(record))

    assert (record.state, record.reason) == (JobState.CANCELLED, Reason.CANCELLED_BY_USER)


def test_a_farewell_to_a_queued_job_without_a_call_ends_it() -> None:
    record = lockstep.farewell(queued(gang(2, calls=CALLS)), 3.0).record

    assert (record.state, record.reason) == (JobState.CANCELLED, Reason.CALLER_ENDED)


def test_a_farewell_to_a_queued_job_with_a_call_lets_it_run() -> None:
    record = lockstep.farewell(let_go(queued(gang(2, calls=CALLS))), 3.0).record

    assert (record.state, record.caller_ended) == (JobState.QUEUED, True)
    assert lockstep.farewell(record, 4.0).record == record


@pytest.mark.parametrize("story", ["cancelled", "ended", "farewell"])
def test_a_job_that_takes_no_calls_ignores_a_go(story: str) -> None:
    record = settled(script(1, 1))
    if story == "cancelled":
        record = cancelled(record)
    elif story == "farewell":
        record = lockstep.farewell(record, 1.0).record
    else:
        record = hear(record, ended(record))

    assert let_go(record, 1) == record


# --- failures and divergence -----------------------------------------------------------------------------------------


def test_an_outcome_that_is_not_well_fails_the_job_with_the_ranks_own_error() -> None:
    record = all_arrive(let_go(script(2, 1)))

    record = hear(record, records(record, 1, status="failed", error=error(1)), 1.0)
    assert record.stop is not None
    assert record.stop.reason is Reason.PEER_FAILED
    closed = error(0, "RuntimeError", communication=True)
    record = hear(record, records(record, 0, status="failed", error=closed), 1.1)
    for node in (0, 1):
        record = hear(record, ended(record, node, FAILED, Reason.USER_ERROR), 2.0)

    assert (record.state, record.reason) == (JobState.FAILED, Reason.USER_ERROR)
    assert record.cause is not None
    assert record.cause.error == error(1)


def test_an_interrupt_in_the_job_is_a_failure() -> None:
    record = all_arrive(let_go(script(1, 1)))
    record = hear(record, records(record, 0, status="interrupted", error=error(0, "KeyboardInterrupt")))
    record = hear(record, ended(record, 0, FAILED, Reason.USER_ERROR))

    assert (record.state, record.reason) == (JobState.FAILED, Reason.USER_ERROR)


def test_ranks_at_another_call_than_the_caller_diverge_before_any_compute() -> None:
    record = let_go(script(2, 1))

    record = hear(record, arrives(record, 1, function="test"))

    assert record.stop is not None
    assert not view(record).begun
    for node in (0, 1):
        record = hear(record, ended(record, node, CANCELLED, Reason.PEER_FAILED))
    assert (record.state, record.reason) == (JobState.FAILED, Reason.CALLS_DIVERGED)
    assert "call 0 (fit;" in record.sentence
    assert "rank 1 at call 0 (test;" in record.sentence


def test_ranks_that_left_before_the_callers_call_are_named_all() -> None:
    record = let_go(settled(script(2, 2)), 1)

    record = hear(record, arrives(record, 0, 1))
    for rank in (1, 2, 3):
        record = hear(record, leaves(record, rank, 1))
    for node in (0, 1):
        record = hear(record, ended(record, node, CANCELLED, Reason.PEER_FAILED))

    assert (record.state, record.reason) == (JobState.FAILED, Reason.CALLS_DIVERGED)
    assert record.sentence.startswith("Ranks 1, 2, 3 ended after call 0,")
    assert "is it under `is_global_zero`?" in record.sentence


def test_a_go_for_a_call_that_a_rank_already_left_before_diverges() -> None:
    record = settled(script(2, 1))
    record = hear(record, leaves(record, 1, 1))
    assert record.stop is None

    assert let_go(record, 1).stop is not None


def test_a_rank_that_leaves_from_inside_its_call_does_not_diverge() -> None:
    record = all_arrive(let_go(script(2, 1)))

    record = hear(record, leaves(record, 1, 0))

    assert record.stop is None


def test_an_exception_that_is_heard_after_the_divergence_it_caused_is_the_cause() -> None:
    record = let_go(script(2, 1))
    raised = Evidence(kind="exception", node_rank=1, rank=1, error=error(1))

    record = hear(record, leaves(record, 1, 0), 1.0)
    record = hear(record, ended(record, 1, FAILED, Reason.USER_ERROR, evidence=(raised,)), 1.2)
    record = hear(record, ended(record, 0, CANCELLED, Reason.PEER_FAILED), 1.3)

    assert (record.state, record.reason) == (JobState.FAILED, Reason.USER_ERROR)


def test_a_job_of_calls_is_never_tried_again() -> None:
    record = running(command(calls=CALLS, max_attempts=3))

    assert transitions.lose_tasks(record, (0,), Reason.WORKER_LOST, 1.0).record.state is JobState.LOST
