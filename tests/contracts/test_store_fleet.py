"""What every store promises of workers, processes and turns."""

from __future__ import annotations

import pytest

from gpulayer.control.store import housekeeping, jobs, processes, workers
from gpulayer.control.store.store import Store
from gpulayer.errors import AmbiguousId, WorkerNotFound
from gpulayer.spec.states import JobState, TaskState
from gpulayer.spec.workers import Device, WorkerInfo
from tests.control.given import a_command, a_record, a_task, a_worker


def registered(store: Store, info: WorkerInfo, now: float = 1.0) -> WorkerInfo:
    with store.write() as db:
        workers.register(db, info, now)
    return info


def test_a_worker_comes_back_as_it_registered(store: Store) -> None:
    info = registered(store, a_worker(labels={"rack": "3"}, process="prc-1"))
    with store.read() as db:
        found = workers.load(db, info.id)
        assert workers.of_process(db, "prc-1") == workers.all_in(db) == [found]
        assert workers.standing(db, info.id) == ("online", "first", 1.0)
    assert (found.info, found.state, found.busy, found.busy_until) == (info, "online", (), None)


def test_a_worker_is_busy_with_its_held_tasks(store: Store) -> None:
    info = registered(store, a_worker())
    record = a_record(spec=a_command(timeout_s=10, grace_s=5))
    gpu = Device(uuid="GPU-1", kind="cuda", index=0)
    task = a_task(record, worker_id=info.id, devices=(gpu,), running_at=100.0, state=TaskState.RUNNING)
    running = record.model_copy(update={"state": JobState.RUNNING, "attempt": 1, "tasks": (task,)})
    with store.write() as db:
        saved = jobs.save(db, jobs.add(db, record, ()), running, ())
        found = workers.load(db, info.id)
    assert (found.busy, found.leased, found.busy_until) == (((record.id, 1, 0),), ("GPU-1",), 115.0)
    lost = saved.model_copy(update={"tasks": (task.model_copy(update={"state": TaskState.LOST}),)})
    with store.write() as db:
        jobs.save(db, saved, lost, ())
        found = workers.load(db, info.id)
    assert (found.busy, found.leased) == (((record.id, 1, 0),), ("GPU-1",))  # its processes may still be dying


def test_a_lost_task_is_its_workers_until_it_says_that_nothing_is_left(store: Store) -> None:
    record = a_record()
    task = a_task(record, worker_id="wkr-1")
    with store.write() as db:
        saved = jobs.save(db, jobs.add(db, record, ()), record.model_copy(update={"tasks": (task,)}), ())
    with store.read() as db:
        assert jobs.lost_of_worker(db, "wkr-1") == []

    lost = task.model_copy(update={"state": TaskState.LOST})
    with store.write() as db:
        jobs.save(db, saved, saved.model_copy(update={"tasks": (lost,)}), ())
    with store.read() as db:
        assert jobs.lost_of_worker(db, "wkr-1") == [(lost, record.spec)]
        assert jobs.lost_of_worker(db, "wkr-2") == []

    with store.write() as db:
        jobs.release(db, record.id, 1, 0)
    with store.read() as db:
        assert jobs.lost_of_worker(db, "wkr-1") == []


def test_what_a_lost_worker_holds_counts_for_placement_until_it_is_released(store: Store) -> None:
    serving, holding, lost = (registered(store, a_worker(name), float(at)) for at, name in enumerate(("a", "b", "c")))
    record = a_record()
    gpu = Device(uuid="GPU-1", kind="cuda", index=0)
    task = a_task(record, worker_id=holding.id, devices=(gpu,), state=TaskState.LOST)
    with store.write() as db:
        queued = jobs.add(db, record, ())
        placed = jobs.save(
            db, queued, queued.model_copy(update={"attempt": 1, "tasks": (a_task(record, worker_id=holding.id),)}), ()
        )
        jobs.save(db, placed, placed.model_copy(update={"tasks": (task,)}), ())
        for info in (holding, lost):
            workers.set_state(db, info.id, "lost")
        found = workers.for_placement(db)
        assert [(each.info.id, each.state, each.leased) for each in found] == [
            (serving.id, "online", ()),
            (holding.id, "lost", ("GPU-1",)),
        ]
        assert [each.info.id for each in workers.all_in(db, ("lost",))] == [holding.id, lost.id]
        jobs.release(db, record.id, 1, 0)
        assert [each.info.id for each in workers.for_placement(db)] == [serving.id]


def test_a_worker_is_lost_only_if_nobody_heard_it_since(store: Store) -> None:
    info = registered(store, a_worker(), 1.0)
    with store.write() as db:
        workers.heard(db, info.id, 2.0)
        assert not workers.lose(db, info.id, 1.0)
        assert workers.lose(db, info.id, 2.0)
        assert not workers.lose(db, info.id, 2.0)
        assert workers.load(db, info.id).state == "lost"


def test_registering_again_as_another_incarnation_disowns_the_tasks_of_the_former(store: Store) -> None:
    info = registered(store, a_worker())
    record = a_record()
    running = record.model_copy(update={"state": JobState.RUNNING, "attempt": 1, "tasks": (a_task(record, worker_id=info.id),)})
    with store.write() as db:
        jobs.save(db, jobs.add(db, record, ()), running, ())
        workers.register(db, info, 9.0)
        assert jobs.held_by_former(db) == []
        workers.register(db, info.model_copy(update={"incarnation": "second"}), 9.0)
        assert jobs.held_by_former(db) == [running.tasks[0]]


@pytest.mark.parametrize("lost", [False, True])
def test_a_worker_that_drains_drains_on_when_it_registers_again_until_it_left(store: Store, lost: bool) -> None:
    info = registered(store, a_worker())
    with store.write() as db:
        workers.set_state(db, info.id, "draining")
        if lost:
            workers.lose(db, info.id, 1.0)
        workers.register(db, info.model_copy(update={"incarnation": "second"}), 2.0)
        assert workers.load(db, info.id).state == "draining"

        workers.set_state(db, info.id, "gone")
        workers.register(db, info.model_copy(update={"incarnation": "third"}), 3.0)
        assert workers.load(db, info.id).state == "online"


def test_workers_are_found_by_name_or_prefix(store: Store) -> None:
    one = registered(store, a_worker("alice", id="wkr-ab0000000000"))
    registered(store, a_worker("bob", id="wkr-ac0000000000"))
    with store.write() as db:
        assert workers.full_id(db, "alice") == workers.full_id(db, "wkr-ab") == workers.full_id(db, "ab") == one.id
        with pytest.raises(AmbiguousId):
            workers.full_id(db, "wkr-a")
        workers.set_state(db, one.id, "gone")
        with pytest.raises(WorkerNotFound):
            workers.full_id(db, "alice")


def test_processes_are_listed_until_they_ended(store: Store) -> None:
    with store.write() as db:
        processes.add(db, "prc-1", "caller", 12, 1.0)
        processes.add(db, "prc-2", "worker", 13, 2.0)
        processes.leave(db, "prc-1")
        assert processes.unended(db) == [("prc-1", "caller", 12, True), ("prc-2", "worker", 13, False)]
        processes.end(db, "prc-1", 3.0)
        assert [each.id for each in processes.unended(db)] == ["prc-2"]
        assert processes.find(db, "prc-1") == ("prc-1", "caller", 12, True)


def test_one_process_takes_each_turn(store: Store) -> None:
    with store.write() as db:
        assert housekeeping.take_turn(db, "collect", 10.0, 100.0)
        assert not housekeeping.take_turn(db, "collect", 10.0, 105.0)
        assert housekeeping.take_turn(db, "collect", 10.0, 110.0)
        assert housekeeping.take_turn(db, "collect", 10.0, 50.0)


def test_who_is_long_gone_is_forgotten(store: Store) -> None:
    gone, lost = registered(store, a_worker("gone"), 1.0), registered(store, a_worker("lost"), 1.0)
    with store.write() as db:
        processes.add(db, "prc-1", "caller", 12, 1.0)
        processes.end(db, "prc-1", 3.0)
        workers.set_state(db, gone.id, "gone")
        workers.set_state(db, lost.id, "lost")
        for time, there in ((1.0, True), (5.0, False)):
            processes.forget_ended(db, time)
            workers.forget_gone(db, time)
            assert (processes.find(db, "prc-1") is not None) == there
            assert (workers.standing(db, gone.id) is not None) == there
        assert workers.standing(db, lost.id) is not None
