"""What becomes due when nobody reports anything."""

from __future__ import annotations

from typing import Any

import pytest

from gpulayer.control.engine import deadlines, transitions
from gpulayer.control.engine.moves import Step
from gpulayer.spec.records import JobRecord
from gpulayer.spec.reports import RendezvousTaken, TaskPhase
from gpulayer.spec.states import JobState, Phase, Reason, TaskState
from tests.control.engine.given import (
    CALLS,
    POINT,
    arrives,
    cancelled,
    command,
    ended,
    fault,
    gang,
    hear,
    leaves,
    let_go,
    of,
    placed,
    queued,
    ready,
    records,
    running,
    started,
    stores,
)

CANCELLED = TaskState.CANCELLED


def tick_at_the_deadline(record: JobRecord, expected: float) -> JobRecord:
    """Nothing happens before the deadline; at it something does."""
    assert transitions.next_deadline(record) == expected
    assert transitions.tick(record, expected - 0.001) == Step(record)
    later = transitions.tick(record, expected).record
    assert later != record
    return later


@pytest.mark.parametrize(
    ("spec", "deadline"),
    [(command(), None), (command(timeout_s=5), None), (command(queue_timeout_s=5), 15.0)],
    ids=["none", "timeout counts from running", "queue timeout"],
)
def test_a_queued_job_waits_until_its_queue_timeout(spec: Any, deadline: float | None) -> None:
    assert transitions.next_deadline(queued(spec, at=10.0)) == deadline


def test_a_job_that_queued_for_too_long_times_out() -> None:
    record = tick_at_the_deadline(queued(command(queue_timeout_s=5), at=10.0), 15.0)

    assert (record.state, record.reason) == (JobState.TIMED_OUT, Reason.QUEUE_TIMEOUT)
    assert "5 s" in record.sentence
    assert transitions.next_deadline(record) is None


def test_a_timeout_counts_from_running_and_gives_the_jobs_own_grace() -> None:
    record = running(command(timeout_s=60, grace_s=12), at=100.0)

    record = tick_at_the_deadline(record, 160.0)
    assert record.stop is not None
    assert (record.stop.reason, record.stop.grace_s) == (Reason.TIMEOUT, 12)
    record = hear(record, ended(record, 0, TaskState.TIMED_OUT, Reason.TIMEOUT))

    assert (record.state, record.reason) == (JobState.TIMED_OUT, Reason.TIMEOUT)
    assert record.sentence == "It ran for longer than its timeout of 60 s."


def test_a_job_that_ended_well_just_as_it_timed_out_succeeded() -> None:
    record = transitions.tick(running(command(timeout_s=60)), 60.0).record

    assert hear(record, ended(record)).state is JobState.SUCCEEDED


def test_what_does_not_stop_in_its_grace_is_killed() -> None:
    record = cancelled(running(command()), 10.0, grace_s=30.0)

    record = tick_at_the_deadline(record, 40.0)

    assert record.stop is not None
    assert record.stop.kill
    assert record.stop.reason is Reason.CANCELLED_BY_USER


def test_a_task_of_which_nothing_is_heard_after_the_kill_is_given_up_with_its_devices_held() -> None:
    record = cancelled(running(command()), 10.0, grace_s=30.0)
    record = transitions.tick(record, 41.0).record

    record = tick_at_the_deadline(record, 101.0)

    assert (record.state, record.reason) == (JobState.CANCELLED, Reason.CANCELLED_BY_USER)
    assert record.sentence == (
        "Cancelled as asked. w0 has not said that its processes are gone, 60 s after they were to be killed."
    )
    assert record.tasks[0].state is TaskState.LOST


def test_a_kill_begins_the_wait_for_its_answer_when_it_is_ordered() -> None:
    record = cancelled(running(command()), 10.0, grace_s=3600.0)
    record = cancelled(record, 12.0, kill=True)
    assert transitions.next_deadline(record) == 72.0

    slept = cancelled(running(command()), 10.0, grace_s=5.0)
    slept = transitions.tick(slept, 9000.0).record
    assert slept.state is JobState.RUNNING
    assert transitions.next_deadline(slept) == 9060.0


def test_a_gang_ends_though_one_of_its_workers_never_answers_the_stop() -> None:
    record = hear(running(gang(2)), fault(running(gang(2)), 1, kind="exit", rank=1, exit_code=3), 10.0)
    record = hear(record, ended(record, 1, TaskState.FAILED, Reason.EXITED), 10.5)
    record = transitions.tick(record, 15.0).record

    record = transitions.tick(record, 75.0).record

    assert (record.state, record.reason) == (JobState.FAILED, Reason.EXITED)
    assert record.sentence == "Rank 1 on w1 exited with code 3."
    assert record.tasks[0].sentence.startswith("w0 (node 0) has not said that its processes are gone")


def test_a_task_that_stores_its_outputs_has_longer_than_its_worker_takes_to_give_up() -> None:
    record = cancelled(running(command()), 10.0, kill=True)
    record = hear(record, TaskPhase(**of(record, 0), phase=Phase.UPLOADING), 20.0)
    record = hear(record, TaskPhase(**of(record, 0), phase=Phase.UPLOADING), 90.0)

    record = tick_at_the_deadline(record, 20.0 + deadlines.UPLOAD_S)

    assert record.state is JobState.CANCELLED
    assert "has not said within 1500 s that the outputs are stored" in record.sentence


def test_a_well_ended_job_whose_outputs_are_never_stored_ends_as_lost() -> None:
    record = running(command())
    record = hear(record, TaskPhase(**of(record, 0), phase=Phase.UPLOADING), 20.0)

    record = transitions.tick(record, 20.0 + deadlines.UPLOAD_S).record

    assert (record.state, record.reason) == (JobState.LOST, Reason.WORKER_LOST)


def test_the_job_of_a_caller_that_is_gone_gets_a_short_grace_only() -> None:
    record = cancelled(running(command(grace_s=30)), 10.0, reason=Reason.CALLER_GONE, grace_s=30.0)

    assert record.stop is not None
    assert record.stop.grace_s == 5


def test_the_rendezvous_timeout_names_who_has_not_joined() -> None:
    record = placed(gang(3, rendezvous_timeout_s=20))
    for node in range(3):
        assert transitions.next_deadline(record) is None  # preparing takes as long as it takes
        record = hear(record, ready(record, node), 5.0)
    record = hear(record, RendezvousTaken(**of(record, 0), point=POINT), 6.0)
    record = hear(record, started(record, 0), 6.0)

    record = tick_at_the_deadline(record, 25.0)
    for node in range(3):
        record = hear(record, ended(record, node, CANCELLED, Reason.PEER_FAILED))

    assert (record.state, record.reason) == (JobState.FAILED, Reason.RENDEZVOUS_FAILED)
    assert record.sentence == "w1 (node 1), w2 (node 2) have not joined after 20 s."


def test_the_rendezvous_timeout_names_the_node_that_took_no_port() -> None:
    record = placed(gang(2, rendezvous_timeout_s=20))
    for node in range(2):
        record = hear(record, ready(record, node), 5.0)

    record = transitions.tick(record, 25.0).record

    assert record.evidence[0].sentence == "w0 (node 0) has not taken a port after 20 s."


def test_a_gang_that_has_joined_has_no_rendezvous_deadline() -> None:
    assert transitions.next_deadline(running(gang(2, rendezvous_timeout_s=20))) is None


# --- scripts with calls --------------------------------------------------------------------------------------------


def held(*, at: float) -> JobRecord:
    """A script whose first call has settled."""
    record = let_go(running(gang(2, calls=CALLS)))
    for rank in range(2):
        record = hear(record, arrives(record, rank))
        record = hear(record, records(record, rank))
    for node in range(2):
        record = hear(record, stores(record, node), at)
    return record


def test_held_ranks_are_let_go_at_the_idle_limit_and_the_job_ends_well() -> None:
    record = tick_at_the_deadline(held(at=30.0), 90.0)
    assert record.caller_ended
    assert record.state is JobState.RUNNING

    for node in range(2):
        record = hear(record, ended(record, node))
    assert (record.state, record.reason) == (JobState.SUCCEEDED, Reason.IDLE_LIMIT)
    assert record.sentence == "Its ranks held for 60 s without a further call, and were let go."


def test_the_idle_limit_counts_only_while_ranks_hold() -> None:
    record = let_go(held(at=30.0), 1, 80.0)

    assert transitions.next_deadline(record) is None


def test_ranks_that_wait_for_the_first_go_hold_as_well() -> None:
    record = running(gang(2, calls=CALLS))
    record = hear(record, arrives(record, 0), 5.0)
    assert transitions.next_deadline(record) is None

    record = hear(record, arrives(record, 1), 7.0)
    assert transitions.next_deadline(record) == 67.0


def test_a_rank_that_stays_after_another_left_fails_the_job_after_the_grace() -> None:
    record = held(at=0.0)
    record = transitions.tick(record, 60.0).record
    record = hear(record, leaves(record, 0, 1), 61.0)

    record = tick_at_the_deadline(record, 121.0)
    for node in range(2):
        record = hear(record, ended(record, node, CANCELLED, Reason.PEER_FAILED))

    assert (record.state, record.reason) == (JobState.FAILED, Reason.STRAGGLER)
    assert record.sentence.startswith("Rank 1 was still in the script 60 s")


def test_ranks_that_all_left_have_no_straggler() -> None:
    record = transitions.tick(held(at=0.0), 60.0).record
    for rank in range(2):
        record = hear(record, leaves(record, rank, 1), 61.0)

    assert transitions.next_deadline(record) is None


def test_in_a_job_without_calls_the_last_node_may_take_its_time() -> None:
    record = running(gang(2))

    assert transitions.next_deadline(hear(record, ended(record, 0))) is None


def test_everything_that_is_due_is_done_at_once() -> None:
    record = running(command(timeout_s=10, grace_s=5))

    record = transitions.tick(record, 100.0).record

    assert record.stop is not None
    assert not record.stop.kill  # its grace begins now
    assert transitions.next_deadline(record) == 105.0


def test_a_stop_leaves_only_its_own_deadline() -> None:
    record = running(gang(2, timeout_s=10, calls=CALLS))

    record = hear(record, fault(record, 0, exit_code=1), 3.0)

    assert transitions.next_deadline(record) == 8.0


# --- a plane that could not hear -----------------------------------------------------------------------------------


def overdue() -> list[Any]:
    """Records of which somebody owed a word by 200.0, and what the plane then does."""
    gated = placed(gang(2))
    for node in range(2):
        gated = hear(gated, ready(gated, node), 5.0)
    killed = cancelled(running(command()), 10.0, kill=True)
    storing = running(command())
    storing = hear(storing, TaskPhase(**of(storing, 0), phase=Phase.UPLOADING), 20.0 - deadlines.UPLOAD_S)
    return [gated, killed, storing, held(at=30.0)]


@pytest.mark.parametrize("record", overdue(), ids=["rendezvous", "kill", "upload", "idle limit"])
def test_who_could_not_be_heard_gets_a_full_period(record: JobRecord) -> None:
    assert transitions.tick(record, 5000.0).events != ()

    assert transitions.tick(record, 5000.0, hearing_since=4999.0) == Step(record)


def test_a_jobs_own_times_run_on_while_the_plane_can_not_hear() -> None:
    late = transitions.tick(running(command(timeout_s=60)), 5000.0, hearing_since=4999.0).record
    assert late.stop is not None

    late = transitions.tick(queued(command(queue_timeout_s=60)), 5000.0, hearing_since=4999.0).record
    assert late.state is JobState.TIMED_OUT
