"""What every store promises of jobs: compare-and-set, events in the same transaction, tasks of all attempts."""

from __future__ import annotations

import pytest

from gpulayer.control.store import jobs
from gpulayer.control.store.store import Store
from gpulayer.errors import AmbiguousId, JobNotFound
from gpulayer.spec.calls import Arrival, CallView
from gpulayer.spec.causes import Evidence
from gpulayer.spec.events import Event
from gpulayer.spec.records import JobRecord, Stop
from gpulayer.spec.states import JobState, Reason, TaskState
from tests.control.given import a_gang, a_record, a_task


def added(store: Store, record: JobRecord, **more: object) -> JobRecord:
    with store.write() as db:
        return jobs.add(db, record, (), **more)  # type: ignore[arg-type]


def placed(store: Store, record: JobRecord, **fields: object) -> JobRecord:
    running = record.model_copy(update={"state": JobState.RUNNING, "attempt": 1, "tasks": (a_task(record),), **fields})
    with store.write() as db:
        return jobs.save(db, record, running, ())


def test_a_job_comes_back_as_it_was_written(store: Store) -> None:
    record = a_record(
        spec=a_gang(name="mnist", labels={"a": "b"}, timeout_s=5),
        owner="prc-1",
        stop=Stop(reason=Reason.TIMEOUT),
        evidence=(Evidence(kind="signal", node_rank=0, signal=9),),
        calls=(CallView(call=0, arrivals=(Arrival(rank=0, call=0, fingerprint=None, at=1.0),)),),
    )
    written = placed(store, added(store, record))
    with store.read() as db:
        assert jobs.load(db, record.id) == written
    assert written.version == 2


def test_a_write_on_an_old_version_is_a_conflict_and_changes_nothing(store: Store) -> None:
    old = added(store, a_record())
    won = placed(store, old)
    event = Event(job_id=old.id, seq=1, at=1.0, kind="ended")
    lost = old.model_copy(update={"state": JobState.CANCELLED, "events": 1})
    with pytest.raises(jobs.Conflict), store.write() as db:
        jobs.save(db, old, lost, (event,))
    with store.read() as db:
        assert jobs.load(db, old.id) == won
        assert jobs.events_after(db, old.id, 0) == ()


def test_events_are_written_with_the_move_and_read_by_number(store: Store) -> None:
    record = a_record()
    told = tuple(Event(job_id=record.id, seq=n, at=n, kind="phase", facts={"n": [n]}) for n in (1, 2, 3))
    with store.write() as db:
        jobs.add(db, record.model_copy(update={"events": 3}), told)
    with store.read() as db:
        assert jobs.events_after(db, record.id, 1) == told[1:]
        assert jobs.version(db, record.id) == (1, 3)


def test_a_key_makes_a_repeated_submission_the_same_job(store: Store) -> None:
    first = added(store, a_record(), key="k")
    assert added(store, a_record(), key="k") == first
    assert added(store, a_record(), key="other").id != first.id


def test_tasks_of_passed_attempts_stay_held_until_released(store: Store) -> None:
    first = placed(store, added(store, a_record()))
    again = first.model_copy(update={"state": JobState.QUEUED, "tasks": ()})
    with store.write() as db:
        queued = jobs.save(db, first, again, ())
    with store.read() as db:
        assert jobs.load(db, first.id).tasks == ()
        [left] = jobs.held_tasks(db)
    assert left.state is TaskState.LOST
    second = queued.model_copy(update={"attempt": 2, "tasks": (a_task(first, attempt=2, worker_id="wkr-2"),)})
    with store.write() as db:
        jobs.save(db, queued, second, ())
        jobs.release(db, first.id, 1, 0)
        assert [task.attempt for task in jobs.held_tasks(db)] == [2]


def test_an_ended_task_holds_nothing_and_a_lost_one_does(store: Store) -> None:
    record = added(store, a_record(spec=a_gang()))
    two = tuple(a_task(record, node, f"wkr-{node}") for node in (0, 1))
    record = placed(store, record, tasks=two)
    ended = (
        two[0].model_copy(update={"state": TaskState.FAILED}),
        two[1].model_copy(update={"state": TaskState.LOST}),
    )
    with store.write() as db:
        jobs.save(db, record, record.model_copy(update={"tasks": ended}), ())
        assert [task.node_rank for task in jobs.held_tasks(db)] == [1]
        assert [task.node_rank for task in jobs.held_tasks(db, ["wkr-0"])] == []


def test_jobs_are_found_by_prefix(store: Store) -> None:
    one, two = added(store, a_record(id="job-aa0000000001")), added(store, a_record(id="job-ab0000000001"))
    with store.read() as db:
        assert jobs.full_id(db, one.id) == one.id
        assert jobs.full_id(db, "job-ab") == jobs.full_id(db, "ab") == two.id
        with pytest.raises(AmbiguousId, match="job-aa0000000001"):
            jobs.full_id(db, "a")
        with pytest.raises(JobNotFound):
            jobs.full_id(db, "job-%")


def test_jobs_are_listed_by_what_is_asked(store: Store) -> None:
    old, new = added(store, a_record(owner="prc-1", created_at=1.0)), added(store, a_record(created_at=2.0))
    running = placed(store, old)
    with store.read() as db:
        assert [record.id for record in jobs.newest(db, 1)] == [new.id]
        assert jobs.queued(db) == [new]
        assert jobs.of_owner(db, "prc-1") == jobs.of_worker(db, "wkr-1") == [running]
        assert jobs.versions_of_worker(db, "wkr-1") == [(old.id, 2)]


def test_a_job_is_due_at_its_deadline_until_it_ended(store: Store) -> None:
    record = added(store, a_record(), deadline=10.0)
    with store.write() as db:
        assert jobs.due(db, 9.9) == []
        assert jobs.due(db, 10.0) == [record.id]
        jobs.save(db, record, record.model_copy(update={"state": JobState.CANCELLED}), (), deadline=10.0)
        assert jobs.due(db, 11.0) == []


def test_a_forgotten_job_leaves_no_row(store: Store) -> None:
    record = placed(store, added(store, a_record()))
    with store.write() as db:
        jobs.forget(db, record.id)
    with store.read() as db:
        assert jobs.newest(db, 10) == []
        assert jobs.held_tasks(db) == []
        with pytest.raises(JobNotFound):
            jobs.load(db, record.id)
