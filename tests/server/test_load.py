"""A thousand jobs submitted and cancelled at once, by many clients, while others follow and workers work."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from gpulayer import plane as planes
from gpulayer.plane import Cursor, Plane
from gpulayer.spec.records import Order
from gpulayer.spec.reports import TaskEnded, TaskReady, TaskRunning
from gpulayer.spec.states import JobState, Reason, TaskState
from gpulayer.spec.workers import WorkerInfo
from tests.control.elsewhere import running, said, tell
from tests.control.given import a_command, a_worker, some_lines
from tests.server.running import Server

CLIENTS, JOBS_EACH, FOLLOWERS, WORKERS = 20, 50, 20, 4
REMOTE: dict[str, Any] = {"placement": {"target": "remote"}, "on_unschedulable": "queue"}


def test_a_thousand_submits_and_cancels_at_once_lose_nothing_and_lock_nobody_out(server: Server) -> None:
    opened = opener(server)
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(CLIENTS + FOLLOWERS + WORKERS))
        over = threading.Event()
        workers = [pool.submit(work, opened, f"box-{number}", over) for number in range(WORKERS)]
        stack.callback(over.set)
        first: list[Future[str]] = [Future() for _ in range(FOLLOWERS)]
        followers = [pool.submit(follow, opened, job_id) for job_id in first]
        clients = [pool.submit(submit_and_cancel, opened, number, first[number % FOLLOWERS]) for number in range(CLIENTS)]
        job_ids = [job_id for client in clients for job_id in client.result(timeout=150)]
        ends = {follower.result(timeout=60) for follower in followers}
        with opened() as plane:
            states = Counter(job.state for job in plane.jobs(limit=CLIENTS * JOBS_EACH))
        over.set()
        assert sum(worker.result(timeout=60) for worker in workers) > 0
    assert len(set(job_ids)) == CLIENTS * JOBS_EACH
    assert states == {JobState.CANCELLED: CLIENTS * JOBS_EACH}
    assert ends == {JobState.CANCELLED}
    status, log = server.stop()
    assert status == 0
    assert "locked" not in log
    told = [json.loads(line) for line in log.splitlines()]
    assert {line["status"] for line in told if line["event"] == "request"} <= {200, 204}
    assert not [line for line in told if line["level"] in ("error", "critical") or "traceback" in line]


Opened = Callable[[], Any]


def opener(server: Server) -> Opened:
    token = server.token("admin")

    @contextmanager
    def opened() -> Iterator[Plane]:
        with closing(planes.open(server.url, process="caller", token=token)) as plane:
            yield plane

    return opened


def submit_and_cancel(opened: Opened, client: int, first: Future[str]) -> list[str]:
    """Submit jobs, and cancel each when two more are in; return their ids."""
    made: list[str] = []
    with opened() as plane:
        for number in range(JOBS_EACH):
            made.append(plane.submit(a_command(name=f"{client}-{number}", **REMOTE), key=f"{client}-{number}").id)
            if number == 0:
                first.set_result(made[0])
            if number >= 2:
                plane.cancel(made[number - 2])
        for job_id in made[-2:]:
            plane.cancel(job_id)
        for job_id in made:
            end_of(plane, job_id)
    return made


def follow(opened: Opened, job_id: Future[str]) -> JobState:
    with opened() as plane:
        return end_of(plane, job_id.result(timeout=60))


def end_of(plane: Plane, job_id: str) -> JobState:
    """Follow a job to its end."""
    news = plane.news(job_id, Cursor())
    while not news.job.state.terminal:
        news = plane.news(job_id, news.cursor, timeout_s=30.0)
    return news.job.state


def work(opened: Opened, name: str, over: threading.Event) -> int:
    """Play a worker whose tasks print and go on until they are told to stop; return how many it had."""
    had: set[str] = set()
    with opened() as plane:
        info = a_worker(name, origin="existing")
        plane.register(info)
        version = 0
        while not over.is_set():
            orders = plane.orders(info.id, seen=version, timeout_s=0.5)
            version = orders.version
            for order in orders.orders:
                if order.job_id not in had:
                    had.add(order.job_id)
                    begin(plane, info, order)
                if order.stop is not None:
                    end = {"state": TaskState.CANCELLED, "reason": Reason.CANCELLED_BY_USER}
                    plane.report(TaskEnded(**about(info, order), **end))
        plane.unregister(info.id)
    return len(had)


def begin(plane: Plane, info: WorkerInfo, order: Order) -> None:
    plane.report(TaskReady(**about(info, order)))
    plane.report(TaskRunning(**about(info, order)))
    plane.append_lines(order.job_id, some_lines(order.job_id, ["up"]))


def about(info: WorkerInfo, order: Order) -> dict[str, Any]:
    told = {"worker_id": info.id, "incarnation": info.incarnation, "job_id": order.job_id}
    return {**told, "attempt": order.attempt, "node_rank": order.node_rank}


CLIENT = """
    import sys, pathlib
    from gpulayer.control.server.app import open_home
    from gpulayer.spec.news import Cursor
    from tests.control.given import a_command
    plane = open_home(pathlib.Path(sys.argv[1]), "caller")
    print("ready", flush=True)
    sys.stdin.readline()
    made = [plane.submit(a_command(on_unschedulable="queue")).id for _ in range(12)]
    for job_id in made:
        plane.cancel(job_id)
    for job_id in made:
        news = plane.news(job_id, Cursor())
        while not news.job.state.terminal:
            news = plane.news(job_id, news.cursor, timeout_s=30.0)
        assert news.job.state == "cancelled", news.job
    print(len(made), flush=True)
    plane.close()
"""


def test_eight_processes_submit_and_cancel_at_once_in_one_home(home: Path) -> None:
    with ExitStack() as stack, closing(planes.open(home)) as plane:
        clients = [stack.enter_context(running(CLIENT, home)) for _ in range(8)]
        assert {said(client) for client in clients} == {"ready"}
        for client in clients:
            tell(client, "go")
        assert [said(client) for client in clients] == ["12"] * 8
        assert Counter(job.state for job in plane.jobs(limit=1000)) == {JobState.CANCELLED: 96}
