"""Workers and callers that fall silent, told by the clock alone; only time in which the plane could hear counts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpulayer.errors import NameTaken, StaleReport
from gpulayer.spec.job import Calls
from gpulayer.spec.records import JobRecord, Order
from gpulayer.spec.reports import TaskEnded, TaskReady, TaskRunning
from gpulayer.spec.states import JobState, Reason, TaskState
from gpulayer.spec.workers import Device, WorkerInfo
from tests.control.given import a_command, a_gang, a_worker
from tests.control.server.asked import Asked

LEASE_S = 90.0
BEAT_S = LEASE_S / 10
CALLER = "prc-0123456789ab"


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def asked(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    monkeypatch.setattr("gpulayer.control.store.store.Store.now", lambda _: clock.now)
    made = Asked(tmp_path / "plane", lease_s=LEASE_S)
    yield made
    made.close()


def passes(asked: Asked, clock: Clock, seconds: float, *hearing: WorkerInfo) -> None:
    """Let time go by, beat by beat; the workers in ``hearing`` ask for their orders all the while."""
    until = clock.now + seconds
    while clock.now < until:
        clock.now += BEAT_S
        for worker in hearing:
            asked.plane.orders(worker.id, incarnation=worker.incarnation)
        asked.plane._look_for_the_silent()


def a_remote_worker(asked: Asked, name: str, **fields: object) -> WorkerInfo:
    info = a_worker(name, origin="existing", **fields)
    asked.plane.register(info)
    return info


def a_job(asked: Asked, **fields: object) -> JobRecord:
    given = {"placement": {"target": "remote"}, "on_unschedulable": "queue", **fields}
    return asked.plane.submit(a_command(**given), owner=CALLER)


def states(asked: Asked) -> dict[str, str]:
    return {worker.info.name: worker.state for worker in asked.plane.workers()}


def begin(asked: Asked, worker: WorkerInfo) -> Order:
    """Play a worker that begins what it is told to do."""
    [order] = asked.plane.orders(worker.id, incarnation=worker.incarnation).orders
    asked.plane.report(TaskReady(**about(order, worker)))
    asked.plane.report(TaskRunning(**about(order, worker)))
    return order


def about(order: Order, worker: WorkerInfo) -> dict[str, object]:
    task = {"job_id": order.job_id, "attempt": order.attempt, "node_rank": order.node_rank}
    return {"worker_id": worker.id, "incarnation": worker.incarnation, **task}


def test_a_silent_worker_is_lost_with_its_tasks_and_one_that_is_heard_is_not(asked: Asked, clock: Clock) -> None:
    silent, heard = a_remote_worker(asked, "silent"), a_remote_worker(asked, "heard")
    spec = a_gang(2, placement={"target": "remote"}, on_unschedulable="queue")
    job = asked.plane.submit(spec)
    for worker in (silent, heard):
        asked.plane.orders(worker.id)
    passes(asked, clock, LEASE_S - BEAT_S, heard)
    assert states(asked) == {"silent": "online", "heard": "online"}
    passes(asked, clock, 4 * BEAT_S, heard)
    assert states(asked) == {"silent": "lost", "heard": "online"}
    tasks = {task.worker_name: task for task in asked.plane.job(job.id).tasks}
    assert (tasks["silent"].state, tasks["silent"].reason) == (TaskState.LOST, Reason.WORKER_LOST)
    assert asked.plane.job(job.id).stop is not None
    [order] = asked.plane.orders(heard.id).orders
    assert order.stop is not None


def test_the_devices_of_a_lost_worker_stay_leased_until_it_says_that_nothing_runs(asked: Asked, clock: Clock) -> None:
    able = a_worker("one").capabilities.model_copy(update={"devices": (Device(uuid="GPU-1", kind="cuda", index=0),)})
    worker = a_remote_worker(asked, "one", capabilities=able)
    need = {"accelerator": "cuda", "gpu_count": 1}
    job = a_job(asked, resources=need)
    order = begin(asked, worker)
    passes(asked, clock, LEASE_S + 3 * BEAT_S)
    assert asked.plane.job(job.id).state is JobState.LOST

    clock.now += BEAT_S
    asked.plane.orders(worker.id, incarnation=worker.incarnation)
    assert states(asked) == {"one": "online"}
    [record] = asked.plane.workers()
    assert record.leased == ("GPU-1",)
    waiting = a_job(asked, resources=need)
    assert waiting.state is JobState.QUEUED

    told = {"state": TaskState.LOST, "reason": Reason.WORKER_LOST}
    asked.plane.report(TaskEnded(**about(order, worker), **told))
    assert asked.plane.job(waiting.id).state is JobState.RUNNING
    assert asked.plane.job(job.id).state is JobState.LOST


def test_time_in_which_the_plane_could_not_hear_counts_for_nobody(asked: Asked, clock: Clock) -> None:
    worker = a_remote_worker(asked, "one")
    begin_at = clock.now
    passes(asked, clock, BEAT_S, worker)
    clock.now += 10 * LEASE_S  # the machine slept
    asked.plane._look_for_the_silent()
    passes(asked, clock, LEASE_S - 2 * BEAT_S)
    assert states(asked) == {"one": "online"}
    assert asked.plane.silence.late == 1
    passes(asked, clock, 5 * BEAT_S)
    assert states(asked) == {"one": "lost"}
    assert clock.now > begin_at + 11 * LEASE_S


def test_a_plane_that_starts_gives_everyone_a_full_period(asked: Asked, clock: Clock, tmp_path: Path) -> None:
    a_remote_worker(asked, "one")
    asked.plane.close()
    clock.now += 100 * LEASE_S
    again = Asked(tmp_path / "plane", lease_s=LEASE_S)
    try:
        passes(again, clock, LEASE_S - BEAT_S)
        assert states(again) == {"one": "online"}
        passes(again, clock, 4 * BEAT_S)
        assert states(again) == {"one": "lost"}
    finally:
        again.close()


def test_a_wait_that_passed_while_the_server_was_down_begins_anew(asked: Asked, clock: Clock, tmp_path: Path) -> None:
    workers = [a_remote_worker(asked, name) for name in ("one", "two")]
    given = {"placement": {"target": "remote"}, "on_unschedulable": "queue"}
    job = asked.plane.submit(a_gang(rendezvous_timeout_s=120, **given), owner=CALLER)
    for worker in workers:
        [order] = asked.plane.orders(worker.id, incarnation=worker.incarnation).orders
        asked.plane.report(TaskReady(**about(order, worker)))
    asked.close()
    clock.now += 3600
    restarted = Asked(tmp_path / "plane", lease_s=LEASE_S)
    try:
        restarted.plane._past_deadlines()
        assert restarted.plane.job(job.id).stop is None

        passes(restarted, clock, 121, *workers)
        restarted.plane._past_deadlines()
        assert "after 120 s" in restarted.plane.job(job.id).evidence[0].sentence
    finally:
        restarted.close()


def test_a_server_that_was_halted_gives_those_who_owe_a_word_their_time_before_it_looks_for_the_silent(
    asked: Asked, clock: Clock
) -> None:
    passes(asked, clock, 2 * BEAT_S)
    assert asked.plane.silence.hearing_since(clock.now + BEAT_S) < clock.now
    assert asked.plane.silence.hearing_since(clock.now + 600) == clock.now + 600


def test_renewals_are_written_in_batches_and_cost_no_transaction_each(asked: Asked, clock: Clock) -> None:
    worker = a_remote_worker(asked, "one")
    written: list[frozenset[str]] = []
    asked.store.listen(written.append)
    clock.now += 5.0
    for _ in range(100):
        asked.plane.orders(worker.id)
    with asked.store.read() as db:
        from gpulayer.control.store import renewals

        assert renewals.of_workers(db) == {worker.id: clock.now - 5.0}
    asked.plane._look_for_the_silent()
    with asked.store.read() as db:
        assert renewals.of_workers(db) == {worker.id: clock.now}
    assert written == []


def test_a_draining_worker_that_was_lost_drains_on_when_it_is_heard(asked: Asked, clock: Clock) -> None:
    worker = a_remote_worker(asked, "one")
    asked.plane.drain(worker.id)
    passes(asked, clock, LEASE_S + 3 * BEAT_S)
    assert states(asked) == {"one": "lost"}
    assert asked.plane.orders(worker.id, incarnation=worker.incarnation).draining
    assert states(asked) == {"one": "draining"}


def test_a_worker_that_is_lost_while_it_waits_stays_lost(asked: Asked, clock: Clock) -> None:
    worker = a_remote_worker(asked, "one")
    look = asked.plane.look_for_orders(worker.id, 0, worker.incarnation)
    assert look() is not None
    passes(asked, clock, LEASE_S + 3 * BEAT_S)
    look()
    assert states(asked) == {"one": "lost"}


def test_a_second_live_worker_of_a_name_is_refused_and_a_lost_ones_name_is_free(asked: Asked, clock: Clock) -> None:
    first = a_remote_worker(asked, "one")
    with pytest.raises(NameTaken, match=f"{first.id}.*--name"):
        a_remote_worker(asked, "one")
    asked.plane.register(first.model_copy(update={"incarnation": "second"}))

    passes(asked, clock, LEASE_S + 4 * BEAT_S)
    second = a_remote_worker(asked, "one")

    assert {each.info.id: each.state for each in asked.plane.workers()} == {first.id: "lost", second.id: "online"}


def test_a_newer_incarnation_fences_the_older(asked: Asked) -> None:
    old = a_remote_worker(asked, "one")
    a_job(asked)
    order = begin(asked, old)
    new = old.model_copy(update={"incarnation": "second"})
    asked.plane.register(new)
    told = asked.plane.orders(old.id, incarnation=old.incarnation)
    assert (told.fenced, told.removed) == (True, False)
    given = asked.plane.orders(new.id, incarnation=new.incarnation)
    assert (given.fenced, [each.job_id for each in given.orders]) == (False, [order.job_id])
    with pytest.raises(StaleReport):
        asked.plane.report(TaskEnded(**about(order, old), state=TaskState.SUCCEEDED, reason=Reason.DONE))
    asked.plane.report(TaskEnded(**about(order, new), state=TaskState.LOST, reason=Reason.WORKER_LOST))
    assert asked.plane.job(order.job_id).state is JobState.LOST


def a_called_job(asked: Asked, **fields: float) -> JobRecord:
    asked.plane.keep_caller(CALLER, "caller", 1, "there")
    return a_job(asked, calls=Calls(root="/r", cwd="/r", **fields))


def test_a_job_whose_caller_falls_silent_is_stopped(asked: Asked, clock: Clock) -> None:
    worker = a_remote_worker(asked, "one")
    job = a_called_job(asked, caller_lease_s=200.0)
    plain = a_job(asked)
    begin(asked, worker)
    passes(asked, clock, 150.0, worker)
    asked.plane.keep_caller(CALLER, "caller", 1, "there")
    passes(asked, clock, 190.0, worker)
    assert asked.plane.job(job.id).stop is None
    passes(asked, clock, 30.0, worker)
    stop = asked.plane.job(job.id).stop
    assert stop is not None
    assert stop.reason is Reason.CALLER_GONE
    assert asked.plane.job(plain.id).stop is None


def test_a_caller_who_left_with_a_word_or_said_farewell_is_not_missed(asked: Asked, clock: Clock) -> None:
    worker = a_remote_worker(asked, "one")
    job = a_called_job(asked, caller_lease_s=100.0)
    begin(asked, worker)
    asked.plane.caller_left(CALLER)
    passes(asked, clock, 300.0, worker)
    assert asked.plane.job(job.id).stop is None
    asked.plane.keep_caller(CALLER, "caller", 1, "there")
    asked.plane.farewell(job.id)
    passes(asked, clock, 300.0, worker)
    assert asked.plane.job(job.id).stop is None
