"""What every store promises to those who listen: after each commit they hear what it touched, and nothing else."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from sqlalchemy import Connection

from gpulayer.control.store import jobs, log_chunks, touched, workers
from gpulayer.control.store.store import Store
from gpulayer.spec.records import JobRecord
from gpulayer.spec.states import JobState
from tests.control.given import a_record, a_task, a_worker, some_lines, until


def heard(store: Store) -> list[frozenset[str]]:
    """Gather what the store tells of this process's commits; "anything" may come at any time."""
    told: list[frozenset[str]] = []
    store.listen(lambda names: None if names == {touched.ANYTHING} else told.append(names))
    return told


def write(store: Store, does: Callable[[Connection], object]) -> None:
    with store.write() as db:
        does(db)


def a_queued(store: Store) -> JobRecord:
    with store.write() as db:
        return jobs.add(db, a_record(), ())


def test_a_placed_job_wakes_its_worker_and_the_queue(store: Store) -> None:
    queued = a_queued(store)
    placed = queued.model_copy(update={"state": JobState.RUNNING, "attempt": 1, "tasks": (a_task(queued),)})
    told = heard(store)
    write(store, lambda db: jobs.save(db, queued, placed, ()))
    assert told == [{queued.id, "wkr-1", "queue"}]


def test_a_move_that_frees_nothing_leaves_the_queue_alone(store: Store) -> None:
    queued = a_queued(store)
    told = heard(store)
    write(store, lambda db: jobs.save(db, queued, queued.model_copy(update={"why": ("busy",)}), ()))
    assert told == [{queued.id}]


def test_each_subject_is_told_by_its_name(store: Store) -> None:
    worker, told = a_worker(), heard(store)
    record = a_queued(store)
    write(store, lambda db: workers.register(db, worker, 1.0))
    write(store, lambda db: workers.set_state(db, worker.id, "draining"))
    write(store, lambda db: workers.heard(db, worker.id, 2.0))
    write(store, lambda db: log_chunks.append(db, record.id, some_lines(record.id, ["a"])))
    write(store, lambda db: log_chunks.append(db, record.id, some_lines(record.id, ["a"])))
    write(store, lambda db: jobs.forget(db, record.id))
    both = {worker.id, "queue"}
    assert told == [{record.id, "queue"}, both, both, {record.id}, {record.id, "queue"}]


def test_what_was_rolled_back_is_not_told(store: Store) -> None:
    record = a_queued(store)
    told = heard(store)
    with pytest.raises(jobs.Conflict), store.write() as db:  # noqa: PT012
        jobs.add(db, a_record(), ())
        jobs.save(db, record.model_copy(update={"version": 7}), record, ())
    assert told == []


def test_what_was_committed_before_a_failure_is_told(store: Store) -> None:
    told = heard(store)
    with pytest.raises(ZeroDivisionError), store.turn("job-1"):  # noqa: PT012
        a_queued(store)
        raise ZeroDivisionError
    assert len(told) == 1


def test_a_listener_may_write_and_is_called_in_no_lock(store: Store) -> None:
    told: list[bool] = []

    def elsewhere() -> None:
        with store.turn("job-1"), store.write() as db:
            workers.heard(db, "wkr-1", 1.0)

    def on_change(_names: frozenset[str]) -> None:
        other = threading.Thread(target=elsewhere, daemon=True)
        other.start()
        other.join(10)
        told.append(other.is_alive())

    with store.turn("job-1"):
        store.listen(lambda names: None if names == {touched.ANYTHING} else on_change(names))
        a_queued(store)
        assert told == []
    assert told == [False]


def test_the_plane_has_one_clock(store: Store) -> None:
    assert abs(store.now() - time.time()) < 5
    assert store.now() <= store.now()


def test_who_is_alone_keeps_others_out_and_may_read_and_write(store: Store) -> None:
    inside: list[str] = []

    def second() -> None:
        a_queued(store)
        inside.append("elsewhere")
        with store.alone("plan"):
            inside.append("second")

    with store.alone("plan"):
        other = threading.Thread(target=second)
        other.start()
        record = a_queued(store)
        with store.read() as db:
            assert jobs.load(db, record.id) == record
        until(lambda: inside)
        inside.append("first")
    other.join(10)
    assert inside == ["elsewhere", "first", "second"]
