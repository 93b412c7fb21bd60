"""A thousand submits and as many cancels by 20 clients at once, with 20 followers, on SQLite: how long each takes.

BENCH_CLIENTS (20), BENCH_JOBS (50) of each.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rotation import at, keep, machine
from standing import clean, server_in, token_for

from gpulayer import plane as planes
from gpulayer.plane import Cursor, Plane
from gpulayer.spec.job import CommandJob

CLIENTS, JOBS = int(os.environ.get("BENCH_CLIENTS", "20")), int(os.environ.get("BENCH_JOBS", "50"))
A_JOB = CommandJob(command=("true",), placement={"target": "remote"}, on_unschedulable="queue")


def client(plane: Plane, begin: threading.Barrier) -> tuple[list[float], list[float]]:
    """Submit jobs, one after the other, then cancel them; return what each took in seconds."""
    submits, cancels, jobs = list[float](), list[float](), list[str]()
    begin.wait()
    for _ in range(JOBS):
        began = time.perf_counter()
        jobs.append(plane.submit(A_JOB).id)
        submits.append(time.perf_counter() - began)
    begin.wait()
    for job_id in jobs:
        began = time.perf_counter()
        plane.cancel(job_id)
        cancels.append(time.perf_counter() - began)
    return submits, cancels


def follow(plane: Plane, job_id: str) -> None:
    cursor = Cursor()
    while not (news := plane.news(job_id, cursor, timeout_s=30.0)).job.state.terminal:
        cursor = news.cursor


def main() -> None:
    environ = clean()
    with tempfile.TemporaryDirectory(prefix="bench-") as name, server_in(Path(name), environ) as server:
        token = token_for("admin", Path(name), environ)
        opened = [planes.open(server.url, token=token) for _ in range(2 * CLIENTS)]
        followed = opened[0].submit(A_JOB)
        begin = threading.Barrier(CLIENTS)
        with ThreadPoolExecutor(2 * CLIENTS) as threads:
            following = [threads.submit(follow, plane, followed.id) for plane in opened[CLIENTS:]]
            took = [each.result() for each in [threads.submit(client, plane, begin) for plane in opened[:CLIENTS]]]
            opened[0].cancel(followed.id)
            for each in following:
                each.result()
        for plane in opened:
            plane.close()
    rows = []
    for what, part in (("submit", 0), ("cancel", 1)):
        times = [seconds for one in took for seconds in one[part]]
        median, most = at(0.5, times), at(0.99, times)
        count = f"{len(times)} by {CLIENTS} clients at once"
        print(f"crowd, {what}: {median * 1000:.0f} ms, 99% within {most * 1000:.0f} ms ({count}; {machine()})", flush=True)
        row = {"name": f"crowd, {what}", "median": median, "p99": most, "count": len(times), "machine": machine()}
        rows.append(row)
    keep("crowd", rows)


if __name__ == "__main__":
    main()
