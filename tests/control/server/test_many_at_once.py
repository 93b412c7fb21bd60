"""Many threads and processes on one home: each submission once, each news seen, and nobody finds the database locked."""

from __future__ import annotations

import threading
from pathlib import Path

from gpulayer.control.engine import placement
from gpulayer.control.server import scheduling
from gpulayer.control.server.app import EmbeddedPlane, open_home
from gpulayer.control.server.home import prepare
from gpulayer.control.store import jobs, workers
from gpulayer.control.store.store import open_store
from gpulayer.spec.news import Cursor
from gpulayer.spec.states import JobState
from tests.control.elsewhere import running, said, tell
from tests.control.given import a_command, a_record, a_worker

THREADS, EACH = 20, 50

FOLLOWER = """
    import sys, pathlib
    from gpulayer.control.server.app import open_home
    from gpulayer.spec.news import Cursor
    plane = open_home(pathlib.Path(sys.argv[1]), "cli")
    print("ready", flush=True)
    for job_id in sys.stdin:
        news = plane.news(job_id.strip(), Cursor())
        while not news.job.state.terminal:
            news = plane.news(job_id.strip(), news.cursor, timeout_s=60.0)
        print(news.job.state, news.cursor.event, flush=True)
    plane.close()
"""

WORKER = """
    import os, sys, pathlib
    from gpulayer.control.server.app import open_home
    from tests.control.given import a_worker
    from tests.control.server.test_plane import about
    from gpulayer.spec.reports import TaskEnded, TaskReady, TaskRunning
    plane = open_home(pathlib.Path(sys.argv[1]), "worker")
    info = a_worker(f"w{os.getpid()}", process=plane.process_id)
    plane.register(info)
    print("ready", flush=True)
    version = 0
    while True:
        orders = plane.orders(info.id, seen=version, timeout_s=60.0)
        version = orders.version
        if orders.draining:
            break
        for order in orders.orders:
            plane.report(TaskReady(**about(order, info)))
            plane.report(TaskRunning(**about(order, info)))
            plane.report(TaskEnded(**about(order, info), state="succeeded", reason="done", exit_code=0))
    plane.unregister(info.id)
    plane.close()
    print("left", flush=True)
"""


def test_twenty_threads_submit_while_others_follow(home: Path, plane: EmbeddedPlane) -> None:
    failures: list[BaseException] = []
    submitted: list[str] = []

    def submit(thread: int) -> None:
        try:
            for number in range(EACH):
                job = plane.submit(a_command(on_unschedulable="queue", name=f"{thread}-{number}"), key=f"{thread}-{number}")
                submitted.append(job.id)
        except BaseException as failure:
            failures.append(failure)

    def follow(job_id: str, done: threading.Event) -> None:
        try:
            cursor = Cursor()
            while not done.is_set():
                cursor = plane.news(job_id, cursor, timeout_s=0.2).cursor
        except BaseException as failure:
            failures.append(failure)

    followed = plane.submit(a_command(on_unschedulable="queue"))
    done = threading.Event()
    followers = [threading.Thread(target=follow, args=(followed.id, done)) for _ in range(5)]
    submitters = [threading.Thread(target=submit, args=(number,)) for number in range(THREADS)]
    with running(FOLLOWER, home) as other:
        assert said(other) == "ready"
        tell(other, followed.id)
        for thread in followers + submitters:
            thread.start()
        for thread in submitters:
            thread.join()
        plane.cancel(followed.id)
        assert said(other).startswith("cancelled")
        done.set()
        for thread in followers:
            thread.join()
    assert failures == []
    assert len(set(submitted)) == THREADS * EACH
    assert len(plane.jobs(limit=10_000)) == THREADS * EACH + 1


def test_jobs_pass_through_two_workers_in_other_processes(home: Path) -> None:
    plane = open_home(home, "caller")
    with running(WORKER, home) as one, running(WORKER, home) as two:
        assert [said(process) for process in (one, two)] == ["ready", "ready"]
        submitted = [plane.submit(a_command(), key=str(number)) for number in range(40)]
        for job in submitted:
            news = plane.news(job.id, Cursor())
            while not news.job.state.terminal:
                news = plane.news(job.id, news.cursor, timeout_s=60.0)
            assert news.job.state is JobState.SUCCEEDED
        for worker in plane.workers():
            plane.drain(worker.info.id)
        assert [said(process) for process in (one, two)] == ["left", "left"]
    assert plane.workers() == []
    plane.close()


def test_a_worker_that_is_heard_while_the_plan_is_made_is_taken(home: Path) -> None:
    store = open_store(prepare(home).root)
    worker, record = a_worker(), a_record()
    with store.write() as db:
        workers.register(db, worker, 1.0)
        jobs.add(db, record, ())
    with store.read() as db:
        looked = scheduling.snapshot(db)
    with store.write() as db:
        workers.heard(db, worker.id, 2.0)
    assert scheduling._apply(store, looked, placement.plan(looked, 3.0), 3.0)
    with store.read() as db:
        assert jobs.load(db, record.id).state is JobState.RUNNING
    store.close()
