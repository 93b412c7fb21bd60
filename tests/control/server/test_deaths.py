"""What becomes of jobs when the processes behind them are killed; each is told by its lock alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gpulayer.control.server import locks
from gpulayer.control.server.app import EmbeddedPlane, open_home
from gpulayer.spec.news import Cursor
from gpulayer.spec.records import JobRecord
from gpulayer.spec.states import JobState, Reason
from tests.control.elsewhere import running, said
from tests.control.given import a_command, a_worker

CALLER = """
    import os, sys, pathlib
    from gpulayer.control.server.app import open_home
    from tests.control.given import a_command
    plane = open_home(pathlib.Path(sys.argv[1]), "caller")
    job = plane.submit(a_command(on_unschedulable="queue"))
    if "farewell" in sys.argv:
        plane.farewell(job.id)
    print(job.id, plane.process_id, flush=True)
    if "close" in sys.argv:
        plane.close()
        print("closed", flush=True)
    sys.stdin.readline()
"""
HOST = """
    import sys, pathlib
    from gpulayer.control.server.app import open_home
    from tests.control.given import a_worker
    plane = open_home(pathlib.Path(sys.argv[1]), "worker")
    info = a_worker("host", process=plane.process_id, owner=sys.argv[2] if len(sys.argv) > 2 else None)
    plane.register(info)
    print(info.id, flush=True)
    sys.stdin.readline()
"""
BUSY = """
    import sys, pathlib
    from gpulayer.control.server.app import open_home
    from gpulayer.spec.base import new_id
    from gpulayer.spec.news import Cursor
    from tests.control.given import a_command, a_worker, some_lines
    plane = open_home(pathlib.Path(sys.argv[1]), "caller")
    worker = a_worker(process=plane.process_id)
    plane.register(worker)
    while True:
        job = plane.submit(a_command(on_unschedulable="queue"), key=new_id("job"))
        print(job.id, flush=True)
        plane.append_lines(job.id, some_lines(job.id, ["a", "b"]))
        print(plane.put_blob(job.id.encode()).sha256, flush=True)
        plane.cancel(job.id)
"""
GUARD = """
    import sys, pathlib
    from gpulayer.control.server import locks
    locks.hold(pathlib.Path(sys.argv[1]))
    print("held", flush=True)
    sys.stdin.readline()
"""


def wait_for(plane: EmbeddedPlane, job_id: str, true: Callable[[JobRecord], object]) -> JobRecord:
    """Follow a job until something is true of it."""
    news = plane.news(job_id, Cursor())
    for _ in range(100):
        if true(news.job):
            return news.job
        news = plane.news(job_id, news.cursor, timeout_s=10.0)
    raise AssertionError(f"it never became true of {news.job}")


@contextmanager
def a_watcher(home: Path) -> Iterator[EmbeddedPlane]:
    plane = open_home(home, "cli")
    try:
        yield plane
    finally:
        plane.close()


def test_the_job_of_a_killed_caller_is_stopped_while_its_worker_lives(home: Path) -> None:
    with a_watcher(home) as plane, running(CALLER, home) as caller:
        worker = a_worker(process=plane.process_id)
        plane.register(worker)
        job_id, _ = said(caller).split()
        nothing = plane.orders(worker.id)
        assert nothing.orders[0].stop is None
        caller.kill()
        stopping = wait_for(plane, job_id, lambda job: job.stop)
        assert stopping.stop is not None
        assert (stopping.state, stopping.stop.reason) == (JobState.RUNNING, Reason.CALLER_GONE)
        assert plane.orders(worker.id, seen=nothing.version, timeout_s=10.0).orders[0].stop == stopping.stop


def test_a_queued_job_of_a_killed_caller_ends_at_once(home: Path) -> None:
    with a_watcher(home) as plane, running(CALLER, home) as caller:
        job_id, _ = said(caller).split()
        caller.kill()
        ended = wait_for(plane, job_id, lambda job: job.state.terminal)
        assert (ended.state, ended.reason) == (JobState.CANCELLED, Reason.CALLER_GONE)


def test_a_job_goes_on_when_its_caller_closed_properly_or_said_farewell(home: Path) -> None:
    with a_watcher(home) as plane:
        worker = a_worker(process=plane.process_id, slots=2)
        plane.register(worker)
        with running(CALLER, home, "farewell") as caller:
            farewell, _ = said(caller).split()
            caller.kill()
            caller.wait()
        with running(CALLER, home, "close") as caller:
            closed, owner = said(caller).split()
            assert said(caller) == "closed"
            caller.kill()
            caller.wait()
        plane.news(closed, Cursor())
        plane.tick()
        assert plane.job(farewell).stop is None
        assert plane.job(closed).stop is None
        assert not (home / "locks" / owner).exists()


def test_tasks_of_a_killed_host_are_lost_and_the_worker_too(home: Path) -> None:
    with a_watcher(home) as plane, running(HOST, home) as host:
        worker_id = said(host)
        job = plane.submit(a_command())
        assert job.tasks[0].worker_id == worker_id
        host.kill()
        ended = wait_for(plane, job.id, lambda job: job.state.terminal)
        assert (ended.state, ended.reason) == (JobState.LOST, Reason.WORKER_LOST)
        [worker] = plane.workers()
        assert worker.state == "lost"


def test_a_lost_task_is_given_up_only_when_its_guard_let_go(home: Path) -> None:
    with a_watcher(home) as plane, running(HOST, home) as host:
        said(host)
        job = plane.submit(a_command(max_attempts=2))
        with running(GUARD, home / "locks" / f"task-{job.id}.1.0") as guard:
            assert said(guard) == "held"
            host.kill()
            host.wait()
            plane.news(job.id, plane.news(job.id, Cursor()).cursor, timeout_s=0.3)
            assert [worker.state for worker in plane.workers()] == ["lost"]
            assert plane.job(job.id).state is JobState.RUNNING
        again = wait_for(plane, job.id, lambda job: job.state is JobState.QUEUED)
        assert again.reason is not None


def test_when_caller_and_host_were_killed_the_next_to_open_the_home_says_so(home: Path) -> None:
    with running(HOST, home) as host:
        said(host)
        with running(CALLER, home) as caller:
            job_id, _ = said(caller).split()
            for process in (caller, host):
                process.kill()
                process.wait()
    with a_watcher(home) as plane:
        ended = wait_for(plane, job_id, lambda job: job.state.terminal)
        assert (ended.state, ended.reason) == (JobState.LOST, Reason.CALLER_AND_WORKER_GONE)
        assert [path.name for path in (home / "locks").iterdir()] == [plane.process_id]


def test_a_worker_with_an_owner_is_forgotten_when_its_host_died(home: Path) -> None:
    with a_watcher(home) as plane, running(HOST, home, plane.process_id) as host:
        said(host)
        assert [worker.state for worker in plane.workers()] == ["online"]
        host.kill()
        host.wait()
        cursor = Cursor()
        job = plane.submit(a_command(on_unschedulable="queue"))
        for _ in range(50):
            cursor = plane.news(job.id, cursor, timeout_s=0.1).cursor
            if not plane.workers():
                break
        assert plane.workers() == []


def test_a_host_that_closed_with_a_task_unended_loses_it_too(home: Path) -> None:
    with a_watcher(home) as plane:
        host = open_home(home, "worker")
        host.register(a_worker(process=host.process_id))
        job = plane.submit(a_command())
        with running(GUARD, home / "locks" / f"task-{job.id}.1.0") as guard:
            assert said(guard) == "held"
            host.close()
            assert plane.job(job.id).state is JobState.RUNNING
        assert wait_for(plane, job.id, lambda job: job.state.terminal).reason is Reason.WORKER_LOST
        assert plane.workers() == []


def test_a_home_is_whole_wherever_a_process_was_killed(home: Path) -> None:
    told: list[str] = []
    for lines in (1, 2, 5, 8, 13):
        with running(BUSY, home) as busy:
            told += [said(busy) for _ in range(lines)]
            busy.kill()
            busy.wait()
    with a_watcher(home) as plane:
        found = {job.id: job for job in plane.jobs(limit=1000)}
        assert {word for word in told if word.startswith("job-")} <= set(found)
        assert all(plane.has_blob(word) for word in told if not word.startswith("job-"))
        for job_id in found:
            ended = wait_for(plane, job_id, lambda job: job.state.terminal)
            events = plane.news(job_id, Cursor()).events
            assert [event.seq for event in events] == list(range(1, ended.events + 1))
            assert [line.seq for line in plane.lines(job_id)] in ([], [0, 1])


def test_a_lock_file_without_its_row_or_a_row_without_its_file_does_no_harm(home: Path) -> None:
    with a_watcher(home) as plane:
        (home / "locks" / "prc-stray").touch()
        assert not locks.is_held(home / "locks" / "prc-stray")
        plane.tick()
        (home / "locks" / plane.process_id).unlink()
        job = plane.submit(a_command(on_unschedulable="queue"))
        plane.news(job.id, plane.news(job.id, Cursor()).cursor, timeout_s=0.3)
        assert plane.job(job.id).state is JobState.QUEUED
