"""How a job goes from submission to its end."""

from __future__ import annotations

from typing import Any

import pytest

from gpulayer.control.engine import transitions
from gpulayer.control.engine.moves import IllegalMove, Step
from gpulayer.spec.records import JobRecord, Plan, Stop, Waiting
from gpulayer.spec.reports import RendezvousTaken, TaskPhase, TaskWaits
from gpulayer.spec.states import JobState, Phase, Reason, TaskState
from tests.control.engine.given import (
    POINT,
    cancelled,
    command,
    ended,
    error,
    fault,
    gang,
    hear,
    of,
    placed,
    plan,
    queued,
    ready,
    running,
    started,
    worker,
)

FAILED, CANCELLED, LOST = TaskState.FAILED, TaskState.CANCELLED, TaskState.LOST


def lose(record: JobRecord, *nodes: int, now: float = 0.0, reason: Reason = Reason.WORKER_LOST) -> JobRecord:
    return transitions.lose_tasks(record, nodes, reason, now).record


def kinds(step: Step) -> list[str]:
    return [event.kind for event in step.events]


# --- the queue ---------------------------------------------------------------------------------------------------


def test_a_submitted_job_is_queued_and_its_events_count_from_one() -> None:
    step = transitions.submitted(JobRecord(id="job-a", spec=gang(2, 3)), 7.0)

    assert (step.record.state, step.record.created_at, step.record.procs_per_worker) == (JobState.QUEUED, 7.0, 3)
    assert [(event.seq, event.kind, event.at) for event in step.events] == [(1, "submitted", 7.0)]
    assert step.record.events == 1


def test_waiting_is_told_once_until_the_reasons_change() -> None:
    record = queued(gang(2))
    told = Waiting(job_id=record.id, never=False, sentences=("waits", "wkr-x: is busy"))

    step = transitions.wait(record, told, 1.0)
    assert (step.record.why, step.record.reason) == (told.sentences, Reason.WAITING_FOR_WORKERS)
    assert kinds(step) == ["waiting"]
    assert transitions.wait(step.record, told, 2.0) == Step(step.record)


def test_a_refused_job_fails_with_everyones_reasons() -> None:
    told = Waiting(job_id="job-a", never=True, sentences=("no eligible worker", "wkr-x: needs 4 cpu(s), worker has 2"))

    record = transitions.refuse(queued(command()), told, 1.0).record

    assert (record.state, record.reason) == (JobState.FAILED, Reason.UNSCHEDULABLE)
    assert "wkr-x: needs 4 cpu(s), worker has 2" in record.sentence
    assert record.why == told.sentences


def test_a_placed_job_has_a_task_on_each_worker() -> None:
    record, workers = queued(gang(2)), [worker("x", machine="m"), worker("y", machine="n")]
    choice = plan([record], workers).placements[0]

    step = transitions.place(record, choice, workers, 5.0)

    assert (step.record.state, step.record.phase, step.record.attempt) == (JobState.RUNNING, Phase.PREPARING, 1)
    assert [(task.worker_name, task.machine, task.state) for task in step.record.tasks] == [
        ("x", "m", TaskState.ASSIGNED),
        ("y", "n", TaskState.ASSIGNED),
    ]
    assert step.record.world_size == 2
    assert kinds(step) == ["placed"]


def test_a_job_that_ended_meanwhile_is_not_placed() -> None:
    record, workers = queued(command()), [worker("x")]
    choice = plan([record], workers).placements[0]

    gone = cancelled(record)

    assert transitions.place(gone, choice, workers, 5.0) == Step(gone)


# --- preparing and starting ----------------------------------------------------------------------------------------


def test_a_gang_prepares_gates_and_runs() -> None:
    record = placed(gang(2))

    record = hear(record, ready(record, 0), 1.0)
    assert (record.phase, record.gated_at) == (Phase.PREPARING, None)
    record = hear(record, ready(record, 1), 2.0)
    assert (record.phase, record.gated_at) == (Phase.GATING, 2.0)
    record = hear(record, RendezvousTaken(**of(record, 0), point=POINT), 3.0)
    assert record.rendezvous == POINT
    record = hear(record, started(record, 1), 4.0)
    assert (record.phase, record.running_at) == (Phase.GATING, 4.0)
    step = transitions.advance(record, started(record, 0), 5.0)
    assert (step.record.phase, step.record.running_at) == (Phase.RUNNING, 4.0)
    assert kinds(step) == ["running", "phase"]


def test_only_the_first_node_says_where_to_meet_and_only_once() -> None:
    record = placed(gang(2))
    other = POINT.model_copy(update={"port": 1})

    assert hear(record, RendezvousTaken(**of(record, 1), point=POINT)).rendezvous is None
    record = hear(record, RendezvousTaken(**of(record, 0), point=POINT))
    assert hear(record, RendezvousTaken(**of(record, 0), point=other)).rendezvous == POINT


def test_a_task_that_waits_while_preparing_says_why_until_it_is_ready() -> None:
    record = placed(command())

    record = hear(record, TaskWaits(**of(record, 0), sentence="GPU-1 is held by another home"))
    assert record.why == ("wkr-w0: GPU-1 is held by another home",)
    assert hear(record, ready(record)).why == ()


def test_phases_only_go_forward() -> None:
    record = running(command())

    record = hear(record, TaskPhase(**of(record, 0), phase=Phase.UPLOADING))
    assert record.phase is Phase.UPLOADING
    assert hear(record, TaskPhase(**of(record, 0), phase=Phase.STOPPING)) == record


# --- endings -----------------------------------------------------------------------------------------------------


def test_a_job_succeeds_when_its_last_task_has() -> None:
    record = running(gang(2))

    record = hear(record, ended(record, 1), 8.0)
    assert record.state is JobState.RUNNING
    record = hear(record, ended(record, 0), 9.0)
    assert (record.state, record.reason, record.ended_at, record.phase) == (JobState.SUCCEEDED, Reason.DONE, 9.0, None)
    assert record.sentence == "All 2 tasks succeeded."


def test_a_success_whose_start_was_never_heard_is_a_success() -> None:
    record = placed(command())

    step = transitions.advance(record, ended(record), 3.0)

    assert step.record.state is JobState.SUCCEEDED
    assert step.record.running_at == 3.0


def test_the_first_failure_stops_everyone_and_the_end_waits_for_all() -> None:
    record = running(gang(3))

    record = hear(record, fault(record, 1, kind="signal", rank=1, signal=9), 10.0)
    assert record.stop == Stop(reason=Reason.PEER_FAILED, grace_s=5.0, at=10.0)
    assert (record.state, record.phase) == (JobState.RUNNING, Phase.STOPPING)

    record = hear(record, ended(record, 0, CANCELLED, Reason.PEER_FAILED), 11.0)
    record = hear(record, ended(record, 2, CANCELLED, Reason.PEER_FAILED), 11.0)
    assert record.state is JobState.RUNNING
    record = hear(record, ended(record, 1, FAILED, Reason.SIGNALLED), 12.0)
    assert (record.state, record.reason) == (JobState.FAILED, Reason.SIGNALLED)
    assert record.sentence == "Rank 1 on w1 was killed by SIGKILL."
    assert record.cause is not None
    assert record.cause.rank == 1


FAILURES: list[tuple[dict[str, Any], Reason, str]] = [
    ({"kind": "exception", "rank": 1, "error": error(1)}, Reason.USER_ERROR, "Rank 1 on w1 raised ValueError: boom"),
    ({"kind": "exit", "rank": 1, "exit_code": 3}, Reason.EXITED, "Rank 1 on w1 exited with code 3."),
    ({"kind": "preparation", "sentence": "pip failed"}, Reason.PREPARATION_FAILED, "pip failed"),
    ({"kind": "rendezvous", "sentence": "x can't reach y"}, Reason.RENDEZVOUS_FAILED, "x can't reach y"),
    (
        {"kind": "communication", "rank": 1, "error": error(1, "RuntimeError", communication=True)},
        Reason.PEER_FAILED,
        "Rank 1 on w1 raised RuntimeError: boom",
    ),
    ({"kind": "signal", "signal": 11}, Reason.SIGNALLED, "w1 was killed by SIGSEGV."),
]


@pytest.mark.parametrize(("evidence", "reason", "sentence"), FAILURES, ids=[str(reason) for _, reason, _ in FAILURES])
def test_a_failure_says_what_and_where(evidence: dict[str, Any], reason: Reason, sentence: str) -> None:
    record = running(gang(2))

    record = hear(record, fault(record, 1, **evidence), 1.0)
    record = hear(record, ended(record, 0, CANCELLED, Reason.PEER_FAILED), 2.0)
    record = hear(record, ended(record, 1, FAILED, reason), 2.0)

    assert (record.state, record.reason, record.sentence) == (JobState.FAILED, reason, sentence)


def test_a_bare_failure_is_evidence_of_itself() -> None:
    record = placed(gang(2))

    record = hear(record, ended(record, 0, FAILED, Reason.PREPARATION_FAILED, sentence="No space left."), 1.0)
    assert record.stop is not None
    record = hear(record, ended(record, 1, CANCELLED, Reason.PEER_FAILED), 2.0)

    assert (record.state, record.reason, record.sentence) == (JobState.FAILED, Reason.PREPARATION_FAILED, "No space left.")


def test_an_exit_on_our_stop_does_not_hide_the_cause() -> None:
    record = running(gang(2))
    closed = error(0, "RuntimeError", communication=True)

    record = hear(record, fault(record, 0, kind="communication", rank=0, error=closed), 1.0)
    record = hear(record, ended(record, 1, FAILED, Reason.EXITED, exit_code=1), 1.5)
    record = hear(record, ended(record, 0, FAILED, Reason.USER_ERROR), 1.6)

    assert record.reason is Reason.PEER_FAILED
    assert record.cause is not None
    assert record.cause.rank == 0


def test_a_repeated_fault_is_noted_once() -> None:
    record = running(command())

    record = hear(record, fault(record, exit_code=1), 1.0)

    assert hear(record, fault(record, exit_code=1), 2.0) == record


def test_well_ended_tasks_do_not_hide_a_recorded_failure() -> None:
    record = running(command())

    record = hear(record, fault(record, kind="exception", rank=0, error=error(0)), 1.0)
    record = hear(record, ended(record), 2.0)

    assert (record.state, record.reason) == (JobState.FAILED, Reason.USER_ERROR)


# --- lost workers and further attempts -----------------------------------------------------------------------------


def test_a_lost_node_fails_a_distributed_job() -> None:
    record = running(gang(2))

    record = lose(record, 1, now=3.0)
    assert record.stop is not None
    assert record.stop.reason is Reason.PEER_FAILED
    record = hear(record, ended(record, 0, CANCELLED, Reason.PEER_FAILED), 4.0)

    assert (record.state, record.reason) == (JobState.FAILED, Reason.WORKER_LOST)
    assert record.sentence == "w1 (node 1) was lost."


def test_a_lost_worker_outranks_the_connections_it_closed() -> None:
    record = running(gang(2))
    closed = error(0, "RuntimeError", communication=True)

    record = hear(record, fault(record, 0, kind="communication", rank=0, error=closed), 1.0)
    record = lose(record, 1, now=1.5)
    record = hear(record, ended(record, 0, FAILED, Reason.USER_ERROR), 2.0)

    assert record.reason is Reason.WORKER_LOST


def test_an_exception_before_the_loss_is_the_cause() -> None:
    record = running(gang(2))

    record = hear(record, fault(record, 1, kind="exception", rank=1, error=error(1)), 1.0)
    record = lose(record, 1, now=1.5)
    record = hear(record, ended(record, 0, CANCELLED, Reason.PEER_FAILED), 2.0)

    assert record.reason is Reason.USER_ERROR


def test_an_independent_job_without_an_attempt_left_is_lost() -> None:
    record = lose(running(command()), 0)

    assert (record.state, record.reason) == (JobState.LOST, Reason.WORKER_LOST)


def test_an_independent_job_with_an_attempt_left_queues_again_and_hears_nothing_of_the_old_one() -> None:
    old = running(command(max_attempts=2, queue_timeout_s=50.0), at=10.0)

    step = transitions.lose_tasks(old, (0,), Reason.WORKER_LOST, 20.0)

    again = step.record
    assert (again.state, again.reason, again.attempt) == (JobState.QUEUED, Reason.RETRY, 1)
    assert [task.state for task in again.tasks] == [LOST]  # the store has yet to hear of it
    assert kinds(step) == ["task_ended", "retry"]
    assert transitions.next_deadline(again) == 70.0
    assert hear(again, ended(old)) == again

    workers = [worker("w0")]
    second = transitions.place(again, plan([again], workers).placements[0], workers, 30.0).record
    assert (second.attempt, second.running_at) == (2, None)
    assert hear(second, ended(old)) == second


def test_a_failed_independent_job_is_tried_again_and_then_fails() -> None:
    record = running(command(max_attempts=2))
    record = hear(record, ended(record, 0, FAILED, Reason.EXITED, exit_code=1))
    assert record.state is JobState.QUEUED

    workers = [worker("w0")]
    record = transitions.place(record, plan([record], workers).placements[0], workers, 1.0).record
    record = hear(record, ended(record, 0, FAILED, Reason.EXITED, exit_code=1))
    assert (record.state, record.reason) == (JobState.FAILED, Reason.EXITED)


def test_a_cancelled_job_is_not_tried_again() -> None:
    record = cancelled(running(command(max_attempts=5)))

    record = lose(record, 0)

    assert (record.state, record.reason) == (JobState.CANCELLED, Reason.CANCELLED_BY_USER)


def test_a_task_of_which_a_worker_that_came_back_knows_nothing_was_lost() -> None:
    record = running(command())

    record = hear(record, ended(record, 0, LOST, Reason.WORKER_LOST))

    assert (record.state, record.reason, record.sentence) == (JobState.LOST, Reason.WORKER_LOST, "w0 was lost.")


@pytest.mark.parametrize(
    ("size", "sentence"),
    [(1, "w0: its worker was told to end."), (2, "w0 (node 0): its worker was told to end.")],
)
def test_what_a_worker_says_of_a_lost_task_is_told_with_its_name(size: int, sentence: str) -> None:
    record = running(command() if size == 1 else gang(size))

    record = hear(record, ended(record, 0, LOST, Reason.WORKER_LOST, sentence="Its worker was told to end."))

    assert record.tasks[0].sentence == sentence


def test_what_is_known_of_a_lost_worker_is_told() -> None:
    record = running(gang(2))

    record = transitions.lose_tasks(record, [1], Reason.WORKER_LOST, 9.0, fate="was removed by an admin").record

    assert record.tasks[1].sentence == "w1 (node 1) was removed by an admin."


def test_when_caller_and_worker_are_gone_the_job_is_lost() -> None:
    record = cancelled(running(gang(2)), reason=Reason.CALLER_GONE)

    record = lose(record, 0, 1, reason=Reason.CALLER_AND_WORKER_GONE)

    assert (record.state, record.reason) == (JobState.LOST, Reason.CALLER_AND_WORKER_GONE)
    assert record.sentence


# --- stops ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "state"),
    [
        (Reason.CANCELLED_BY_USER, JobState.CANCELLED),
        (Reason.CALLER_GONE, JobState.CANCELLED),
        (Reason.TIMEOUT, JobState.TIMED_OUT),
        (Reason.CALLER_AND_WORKER_GONE, JobState.LOST),
    ],
)
def test_a_queued_job_that_is_stopped_ends_at_once(reason: Reason, state: JobState) -> None:
    record = cancelled(queued(command()), 4.0, reason=reason)

    assert (record.state, record.reason, record.ended_at) == (state, reason, 4.0)
    assert record.sentence


def test_a_running_job_that_is_cancelled_ends_when_its_tasks_have() -> None:
    record = cancelled(running(gang(2)), grace_s=30.0)

    record = hear(record, ended(record, 0, CANCELLED, Reason.CANCELLED_BY_USER))
    assert record.state is JobState.RUNNING
    record = hear(record, ended(record, 1))

    assert (record.state, record.reason) == (JobState.CANCELLED, Reason.CANCELLED_BY_USER)


def test_an_exception_on_the_way_out_does_not_turn_a_cancel_into_a_failure_or_shorten_its_grace() -> None:
    record = cancelled(running(command()), grace_s=30.0)

    record = hear(record, fault(record, kind="exception", rank=0, error=error(0, "SIGTERMException")))
    assert record.stop is not None
    assert record.stop.grace_s == 30.0
    record = hear(record, ended(record, 0, FAILED, Reason.USER_ERROR, exit_code=1))

    assert record.state is JobState.CANCELLED
    (task,) = record.tasks
    assert (task.state, task.reason, task.exit_code) == (CANCELLED, Reason.CANCELLED_BY_USER, 1)


def test_a_second_cancel_changes_nothing_unless_it_is_harder() -> None:
    record = cancelled(running(command()), 1.0, grace_s=30.0)

    assert cancelled(record, 2.0, grace_s=30.0) == record
    assert cancelled(record, 2.0, grace_s=60.0) == record
    harder = cancelled(record, 2.0, grace_s=30.0, kill=True).stop
    assert harder == Stop(reason=Reason.CANCELLED_BY_USER, grace_s=1.0, kill=True, at=1.0)


def test_a_cancel_of_a_failing_job_leaves_it_failed() -> None:
    record = running(command())

    record = cancelled(hear(record, fault(record, exit_code=1)), kill=True)
    record = hear(record, ended(record, 0, FAILED, Reason.EXITED))

    assert (record.state, record.reason) == (JobState.FAILED, Reason.EXITED)


def test_cancelling_an_ended_job_changes_nothing() -> None:
    record = running(command())
    record = hear(record, ended(record))

    assert cancelled(record) == record


def test_a_task_that_its_worker_timed_out_times_the_job_out() -> None:
    record = running(gang(2))

    record = hear(record, ended(record, 0, TaskState.TIMED_OUT, Reason.TIMEOUT, sentence="It ran for too long."))
    record = hear(record, ended(record, 1, TaskState.TIMED_OUT, Reason.TIMEOUT))

    assert (record.state, record.reason, record.sentence) == (JobState.TIMED_OUT, Reason.TIMEOUT, "It ran for too long.")


# --- reports that come late, twice, or from elsewhere -----------------------------------------------------------------


@pytest.mark.parametrize(
    "changed",
    [{"attempt": 0}, {"attempt": 2}, {"node_rank": 7}, {"node_rank": -1}, {"worker_id": "wkr-other"}],
    ids=["passed attempt", "unknown attempt", "no such node", "negative node", "another worker"],
)
def test_a_report_that_is_not_of_a_live_task_changes_nothing(changed: dict[str, Any]) -> None:
    record = running(gang(2))

    report = ended(record, 0, FAILED, Reason.EXITED).model_copy(update=changed)

    assert transitions.advance(record, report, 1.0) == Step(record)


def test_a_report_of_an_ended_task_changes_nothing() -> None:
    record = running(gang(2))
    record = hear(record, ended(record, 0))

    for report in (ended(record, 0, FAILED, Reason.EXITED), fault(record, 0, exit_code=1), started(record, 0)):
        assert transitions.advance(record, report, 1.0) == Step(record)


def test_a_lost_task_stays_lost() -> None:
    record = lose(running(gang(2)), 1)

    assert hear(record, ended(record, 1)) == record
    assert lose(record, 1) == record


def test_an_illegal_move_is_an_error_of_ours() -> None:
    with pytest.raises(IllegalMove):
        Step(queued(command())).move(JobState.SUCCEEDED, Reason.DONE)
    with pytest.raises(IllegalMove):
        Step(placed(command())).move_task(0, TaskState.SUCCEEDED)


def test_a_plan_is_plain_data() -> None:
    made = plan([queued(gang(2))], [worker("x"), worker("y")])

    assert Plan.model_validate_json(made.model_dump_json()) == made
