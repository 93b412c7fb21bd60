"""A thousand jobs submitted and cancelled at once, by many clients, while others follow and workers work."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from gpulayer import plane as planes
from gpulayer.plane import Cursor, Plane
from gpulayer.spec.records import Order
from gpulayer.spec.reports import TaskEnded, TaskReady, TaskRunning
from gpulayer.spec.states import JobState, Phase, Reason, TaskState
from gpulayer.spec.workers import WorkerInfo
from tests.control.elsewhere import running, said, tell
from tests.control.given import a_command, a_worker, some_lines, until
from tests.server.running import Serve, Server

pytestmark = pytest.mark.timeout(600)
CLIENTS, JOBS_EACH, FOLLOWERS, WORKERS = 20, 50, 20, 4
REMOTE: dict[str, Any] = {"placement": {"target": "remote"}, "on_unschedulable": "queue"}


def test_a_thousand_submits_and_cancels_at_once_lose_nothing_and_lock_nobody_out(server: Server) -> None:
    opened = opener(server)
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(CLIENTS + FOLLOWERS + WORKERS))
        workers = [pool.submit(work, opened, f"box-{number}") for number in range(WORKERS)]
        stack.callback(let_workers_go, opened)
        first: list[Future[str]] = [Future() for _ in range(FOLLOWERS)]
        followers = [pool.submit(follow, opened, job_id) for job_id in first]
        clients = [pool.submit(submit_and_cancel, opened, number, first[number % FOLLOWERS]) for number in range(CLIENTS)]
        job_ids = [job_id for client in clients for job_id in client.result(timeout=400)]
        ends = {follower.result(timeout=120) for follower in followers}
        with opened() as plane:
            states = Counter(job.state for job in plane.jobs(limit=CLIENTS * JOBS_EACH))
        let_workers_go(opened)
        assert sum(worker.result(timeout=120) for worker in workers) > 0
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
        return end_of(plane, job_id.result(timeout=120))


def end_of(plane: Plane, job_id: str) -> JobState:
    """Follow a job to its end."""
    news = plane.news(job_id, Cursor())
    while not news.job.state.terminal:
        news = plane.news(job_id, news.cursor, timeout_s=30.0)
    return news.job.state


def work(opened: Opened, name: str) -> int:
    """Play a worker whose tasks print and go on until they are told to stop; return how many it had."""
    had: set[str] = set()
    with opened() as plane:
        info = a_worker(name, origin="existing")
        plane.register(info)
        version, draining = 0, False
        while not draining:
            orders = plane.orders(info.id, seen=version, timeout_s=30.0)
            version, draining = orders.version, orders.draining
            for order in orders.orders:
                if order.job_id not in had:
                    had.add(order.job_id)
                    begin(plane, info, order)
                if order.stop is not None:
                    end = {"state": TaskState.CANCELLED, "reason": Reason.CANCELLED_BY_USER}
                    plane.report(TaskEnded(**about(info, order), **end))
        plane.unregister(info.id)
    return len(had)


def let_workers_go(opened: Opened) -> None:
    """Tell all workers that nothing more comes; who played one then leaves."""
    with opened() as plane:
        for worker in plane.workers():
            plane.drain(worker.info.id)


def begin(plane: Plane, info: WorkerInfo, order: Order) -> None:
    plane.report(TaskReady(**about(info, order)))
    plane.report(TaskRunning(**about(info, order)))
    plane.append_lines(order.job_id, some_lines(order.job_id, ["up"]))


def about(info: WorkerInfo, order: Order) -> dict[str, Any]:
    told = {"worker_id": info.id, "incarnation": info.incarnation, "job_id": order.job_id}
    return {**told, "attempt": order.attempt, "node_rank": order.node_rank}


def test_a_hundred_workers_wait_at_a_server_with_256_descriptors(serve: Serve) -> None:
    server = serve(open_files=256)
    opened = opener(server)
    with ThreadPoolExecutor(100) as pool, opened() as plane:
        try:
            workers = [pool.submit(work, opened, f"box-{number}") for number in range(100)]
            jobs = [plane.submit(a_command(**REMOTE)) for _ in range(100)]
            for job in jobs:
                until(lambda job=job: plane.job(job.id).phase == Phase.RUNNING, within_s=120)  # type: ignore[misc]
            for job in jobs:  # now each worker has one, and all wait at once
                plane.cancel(job.id)
            assert {end_of(plane, job.id) for job in jobs} == {JobState.CANCELLED}
        finally:
            let_workers_go(opened)
        assert sum(worker.result(timeout=120) for worker in workers) == 100


def test_a_worker_that_never_answers_holds_up_nobody_else(server: Server) -> None:
    opened = opener(server)
    with ThreadPoolExecutor(1) as pool, opened() as plane:
        plane.register(a_worker("silent", origin="existing"))
        left_waiting = plane.submit(a_command(**REMOTE))
        try:
            worker = pool.submit(work, opened, "other")
            for _ in range(20):
                job = plane.submit(a_command(**REMOTE))
                until(lambda job=job: plane.job(job.id).phase == Phase.RUNNING, within_s=120)  # type: ignore[misc]
                plane.cancel(job.id)
                assert end_of(plane, job.id) is JobState.CANCELLED
        finally:
            let_workers_go(opened)
        assert worker.result(timeout=120) == 20
        assert plane.job(left_waiting.id).tasks[0].worker_name == "silent"


def test_jobs_that_are_tried_again_on_a_full_fleet_all_end(server: Server) -> None:
    opened, dice = opener(server), random.Random(7)
    with ThreadPoolExecutor(3) as pool, opened() as plane:
        jobs = [plane.submit(a_command(max_attempts=3, **REMOTE)) for _ in range(60)]
        try:
            workers = [pool.submit(run_or_crash, opened, f"box-{number}", dice) for number in range(3)]
            ends = {job.id: end_of(plane, job.id) for job in jobs}
        finally:
            let_workers_go(opened)
        crashes = sum(worker.result(timeout=120) for worker in workers)
        found = plane.jobs(limit=60)
        assert crashes > 10
    assert set(ends.values()) <= {JobState.SUCCEEDED, JobState.LOST}
    assert {job.attempt for job in found if job.state is JobState.LOST} <= {3}
    assert sum(job.attempt - 1 for job in found) + sum(job.state is JobState.LOST for job in found) == crashes
    assert {job.attempt for job in found if job.state is JobState.SUCCEEDED} > {1}


def run_or_crash(opened: Opened, name: str, dice: random.Random) -> int:
    """Play a worker that loses every third task with its life, and comes back; return how often it died."""
    died, version, draining = 0, 0, False
    with opened() as plane:
        info = a_worker(name, origin="existing")
        plane.register(info)
        while not draining:
            orders = plane.orders(info.id, seen=version, timeout_s=30.0)
            version, draining = orders.version, orders.draining
            assert len(orders.orders) <= 1, "one slot"
            for order in orders.orders:
                begin(plane, info, order)
                if dice.random() < 0.33:
                    died += 1
                    info = info.model_copy(update={"incarnation": f"after {died}"})
                    plane.register(info)
                    plane.report(TaskEnded(**about(info, order), state=TaskState.LOST, reason=Reason.WORKER_LOST))
                else:
                    plane.report(TaskEnded(**about(info, order), state=TaskState.SUCCEEDED, reason=Reason.DONE, exit_code=0))
        plane.unregister(info.id)
    return died


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
