"""What every store promises when two processes write at once: nothing twice, nothing lost, no error escapes."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from gpulayer.control.store import files, jobs, log_chunks, workers
from gpulayer.control.store.store import Store
from gpulayer.spec.records import JobRecord
from gpulayer.spec.states import JobState
from tests.control.elsewhere import running, said, tell
from tests.control.given import a_gang, a_record, a_task, a_worker

BEGIN = """
import sys, pathlib
from gpulayer.control.store import files, housekeeping, jobs, log_chunks, workers
from gpulayer.control.store.store import open_database
from gpulayer.spec.events import Event
from gpulayer.spec.states import JobState
from tests.control.given import a_command, a_record, a_share, a_task, some_lines
store = open_database(sys.argv[1], pathlib.Path("plane"))
mine, wanted = sys.argv[2:]
print("ready", flush=True)
sys.stdin.readline()
"""


@contextmanager
def both(database: str, program: str, wanted: str = "") -> Iterator[list[str]]:
    """Run a program in two processes that begin together; it knows its ``mine`` (0 or 1). Gives what they said in the end."""
    text = BEGIN + textwrap.dedent(program)
    with running(text, database, "0", wanted) as one, running(text, database, "1", wanted) as two:
        for process in (one, two):
            assert said(process) == "ready"
        for process in (one, two):
            tell(process)
        yield [said(process) for process in (one, two)]


def added(store: Store, record: JobRecord) -> JobRecord:
    with store.write() as db:
        return jobs.add(db, record, ())


def test_of_two_that_write_one_job_each_write_of_one_wins_and_events_are_numbered(store: Store, database: str) -> None:
    program = """
        won = 0
        while won < 60:
            with store.read() as db:
                old = jobs.load(db, wanted)
            event = Event(job_id=wanted, seq=old.events + 1, at=1.0, kind="phase")
            try:
                with store.write() as db:
                    jobs.save(db, old, old.model_copy(update={"attempt": old.attempt + 1, "events": event.seq}), (event,))
                won += 1
            except jobs.Conflict:
                pass
        print(won, flush=True)
    """
    record = added(store, a_record())
    with both(database, program, record.id) as counts:
        assert counts == ["60", "60"]
    with store.read() as db:
        assert jobs.load(db, record.id).attempt == 120
        assert [event.seq for event in jobs.events_after(db, record.id, 0)] == list(range(1, 121))


def test_lines_that_two_send_are_stored_once_and_in_order(store: Store, database: str) -> None:
    program = """
        new = 0
        for first in range(0, 200, 4):
            lines = some_lines(wanted, [f"line {n}" for n in range(first, first + 4)], first=first)
            with store.write() as db:
                jobs.must_exist(db, wanted)
                new += log_chunks.append(db, wanted, lines)
        print(new, flush=True)
    """
    record = added(store, a_record())
    with both(database, program, record.id) as counts:
        assert sum(map(int, counts)) == 200
    with store.read() as db:
        lines, _ = log_chunks.after(db, record.id, 0)
    assert [line.text for line in lines] == [f"line {n}" for n in range(200)]


def test_a_follower_misses_no_line_of_two_nodes_that_write_at_once(store: Store, database: str) -> None:
    program = """
        for n in range(100):
            with store.write() as db:
                log_chunks.append(db, wanted, some_lines(wanted, [f"{mine} {n}"], first=n, node_rank=int(mine)))
        print("done", flush=True)
    """
    record = added(store, a_record())
    found: list[str] = []
    text = BEGIN + textwrap.dedent(program)
    with running(text, database, "0", record.id) as one, running(text, database, "1", record.id) as two:
        for process in (one, two):
            assert said(process) == "ready"
            tell(process)
        cursor = 0
        while len(found) < 200:
            with store.read() as db:
                lines, cursor = log_chunks.after(db, record.id, cursor)
            found += [line.text for line in lines]
            if not lines and one.poll() is not None and two.poll() is not None:
                break
    assert Counter(found) == Counter(f"{node} {n}" for node in (0, 1) for n in range(100))
    with store.read() as db:
        assert log_chunks.after(db, record.id, cursor)[0] == ()


def test_two_that_place_one_queue_give_no_worker_two_tasks(store: Store, database: str) -> None:
    program = """
        placed = 0
        while True:
            with store.alone("schedule"):
                with store.read() as db:
                    queue, free = jobs.queued(db), [each for each in workers.all_in(db, workers.SERVING) if not each.busy]
                if not queue or not free:
                    break
                old, worker = queue[0], free[0]
                task = a_task(old, worker_id=worker.info.id)
                with store.write() as db:
                    if workers.some(db, [worker.info.id]) != [worker]:
                        continue
                    jobs.save(db, old, old.model_copy(update={"state": JobState.RUNNING, "attempt": 1, "tasks": (task,)}), ())
            placed += 1
        print(placed, flush=True)
    """
    with store.write() as db:
        for n in range(30):
            workers.register(db, a_worker(str(n)), 1.0)
            jobs.add(db, a_record(), ())
    with both(database, program) as counts:
        assert sum(map(int, counts)) == 30
    with store.read() as db:
        assert jobs.queued(db) == []
        assert max(Counter(task.worker_id for task in jobs.held_tasks(db)).values()) == 1


def test_a_key_that_two_submit_with_is_one_job(store: Store, database: str) -> None:
    program = """
        found = []
        for n in range(50):
            with store.write() as db:
                found.append(jobs.add(db, a_record(), (), key=f"key {n}").id)
        print(*found, flush=True)
    """
    with both(database, program) as words, store.read() as db:
        assert words[0] == words[1]
        assert {record.id for record in jobs.newest(db, 200)} == set(words[0].split())


def test_two_ranks_that_make_a_checkpoint_whole_at_once_tell_of_it_once(store: Store, database: str) -> None:
    program = """
        told = 0
        for serial in range(50):
            share = a_share(wanted, int(mine), serial=serial, entries=())
            with store.write() as db:
                told += files.announce(db, share, 1.0) is not None
        print(told, flush=True)
    """
    record = added(store, a_record(spec=a_gang()))
    tasks = tuple(a_task(record, node, f"wkr-{node}") for node in (0, 1))
    with store.write() as db:
        jobs.save(db, record, record.model_copy(update={"state": JobState.RUNNING, "attempt": 1, "tasks": tasks}), ())
    with both(database, program, record.id) as counts:
        assert sum(map(int, counts)) == 50
    with store.read() as db:
        assert len(files.complete(db, record.id)) == 50


def test_each_turn_is_taken_by_one(store: Store, database: str) -> None:
    program = """
        taken = 0
        for n in range(100):
            with store.write() as db:
                taken += housekeeping.take_turn(db, f"chore {n}", 10.0, 100.0)
        print(taken, flush=True)
    """
    with both(database, program) as counts:
        assert sum(map(int, counts)) == 100


def test_a_worker_that_two_register_and_forget_at_once_harms_nobody(store: Store, database: str) -> None:
    program = """
        from tests.control.given import a_worker
        for n in range(60):
            with store.write() as db:
                workers.register(db, a_worker(id="wkr-1", incarnation=mine), float(n))
            with store.write() as db:
                workers.set_state(db, "wkr-1", "lost")
                workers.forget(db, "wkr-1")
        print("done", flush=True)
    """
    with both(database, program) as words, store.read() as db:
        assert words == ["done", "done"]
        assert workers.all_in(db) == []


def test_a_key_that_two_submit_with_while_its_jobs_are_forgotten_harms_nobody(store: Store, database: str) -> None:
    program = """
        met = []
        for n in range(60):
            with store.write() as db:
                record = jobs.add(db, a_record(), (), key=f"key {n}")
            try:
                with store.write() as db:
                    jobs.must_exist(db, record.id)
                    log_chunks.append(db, record.id, some_lines(record.id, ["a"], node_rank=int(mine)))
            except jobs.JobNotFound:
                pass
            with store.write() as db:
                jobs.forget(db, record.id)
            met.append(record.id)
        print(*met, flush=True)
    """
    with both(database, program) as words, store.read() as db:
        met = [said.split() for said in words]
        assert [len(set(ids)) for ids in met] == [60, 60]
        assert jobs.newest(db, 10) == []
        assert not any(log_chunks.stored_bytes(db, job_id) for job_id in {*met[0], *met[1]})
