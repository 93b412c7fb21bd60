"""The worker host of a home: it serves its caller, and outlives it only as long as there is something to do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gpulayer import plane as planes
from gpulayer.plane import Cursor, Plane
from gpulayer.spec.job import CommandJob
from gpulayer.spec.records import JobRecord
from gpulayer.spec.states import JobState, Reason
from gpulayer.worker import processes
from tests.left_running import left_running, wait_until_none_is_left
from tests.worker.standing import guards_of

CALLER = """
import os, subprocess, sys, time
from gpulayer import plane as planes
from gpulayer.spec.job import CommandJob
home, script, farewell = sys.argv[1:]
plane = planes.open(home, process="caller")
host = subprocess.Popen(
    [sys.executable, "-P", "-m", "gpulayer.worker.local", "--home", home, "--owner", plane.process_id,
     "--watch-pid", str(os.getpid()), "--workers", "wkr-1:one"], stdin=subprocess.PIPE,
    stdout=subprocess.DEVNULL, start_new_session=True)
child = os.fork()
if child == 0:
    time.sleep(600)
while not plane.workers():
    time.sleep(0.01)
job = plane.submit(CommandJob(command=("/bin/sh", "-c", script), grace_s=5.0))
if farewell == "yes":
    plane.farewell(job.id)
print(job.id, child, flush=True)
time.sleep(600)
"""


@pytest.fixture
def plane(home: Path) -> Iterator[Plane]:
    opened = planes.open(home, process="cli")
    yield opened
    opened.close()


def wait_for_line(plane: Plane, job_id: str, text: str) -> None:
    cursor = Cursor()
    while True:
        news = plane.news(job_id, cursor, timeout_s=30.0)
        if any(line.text == text for line in news.lines):
            return
        assert not news.job.state.terminal, news.job
        assert news.cursor != cursor, "nothing came"
        cursor = news.cursor


def wait_ended(plane: Plane, job_id: str) -> JobRecord:
    cursor = Cursor()
    while True:
        news = plane.news(job_id, cursor, timeout_s=30.0)
        if news.job.state.terminal:
            return news.job
        assert news.cursor != cursor, f"nothing came: {news.job}"
        cursor = news.cursor


class Caller:
    """A process that submitted a job, forked a child, and waits."""

    def __init__(self, home: Path, script: str, *, farewell: bool) -> None:
        words = [sys.executable, "-c", CALLER, str(home), script, "yes" if farewell else "no"]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.job_id, child = self.process.stdout.readline().split()
        self._child = int(child)

    def __enter__(self) -> Caller:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        os.kill(self._child, signal.SIGKILL)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def kill(self) -> None:
        """Kill it; its forked child lives on and holds the pipe to the host open."""
        self.process.kill()
        self.process.wait()


def start_host(home: Path, plane: Any, *workers: str) -> subprocess.Popen[bytes]:
    words = ["--home", str(home), "--owner", plane.process_id, "--watch-pid", str(os.getpid()), "--workers", *workers]
    host = subprocess.Popen(
        [sys.executable, "-P", "-m", "gpulayer.worker.local", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert host.stdout is not None
    assert host.stdout.readline() == b"ready\n"
    host.stdout.close()
    return host


def test_a_host_serves_its_caller_and_leaves_when_the_pipe_ends(home: Path, plane: Plane) -> None:
    host = start_host(home, plane, "wkr-1:one", "wkr-2:two")
    assert sorted(worker.info.name for worker in plane.workers()) == ["one", "two"]

    job = wait_ended(plane, plane.submit(CommandJob(command=("/bin/sh", "-c", "echo hi > out.txt"))).id)

    assert (job.state, job.reason) == (JobState.SUCCEEDED, Reason.DONE)
    assert [artifact.path for artifact in plane.artifacts(job.id)] == ["node0/out.txt"]
    assert host.stdin is not None
    host.stdin.close()
    assert host.wait(20) == 0
    assert plane.workers() == []


def test_a_killed_host_takes_its_tasks_with_it(home: Path, plane: Plane) -> None:
    host = start_host(home, plane, "wkr-1:one")
    job = plane.submit(CommandJob(command=("/bin/sh", "-c", "setsid sleep 600 & echo up; sleep 600")))
    wait_for_line(plane, job.id, "up")

    host.kill()
    host.wait()

    assert host.stdin is not None
    host.stdin.close()
    assert wait_until_none_is_left(home) == {}
    assert wait_ended(plane, job.id).state is JobState.LOST


def test_a_process_that_dropped_its_environment_ends_with_its_killed_guard_and_other_jobs_go_on(
    home: Path, plane: Plane
) -> None:
    host = start_host(home, plane, "wkr-1:one", "wkr-2:two")
    other = plane.submit(CommandJob(command=("/bin/sh", "-c", "echo up; exec sleep 600")))
    wait_for_line(plane, other.id, "up")
    (others_guard,) = guards_of(host.pid)
    # It leaves its session, its parent and its environment behind; then the job's only parent is killed.
    job = plane.submit(CommandJob(command=("/bin/sh", "-c", "(setsid env -i sleep 7777 &); echo up; exec sleep 600")))
    wait_for_line(plane, job.id, "up")
    deadline = time.monotonic() + 20.0
    while not (found := [pid for pid, words in _commands(host.pid).items() if words == "sleep 7777"]):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    (guard,) = {*guards_of(host.pid)} - {others_guard}

    os.kill(guard, signal.SIGKILL)

    assert wait_ended(plane, job.id).state is JobState.FAILED
    left = processes.stat(found[0])
    assert left is None or not left.alive
    assert "sleep 600" in _commands(others_guard).values()
    assert plane.job(other.id).state is JobState.RUNNING
    host.terminate()
    assert host.stdin is not None
    host.stdin.close()
    host.wait(20.0)
    assert wait_until_none_is_left(home) == {}


def _commands(root: int) -> dict[int, str]:
    found = {}
    for each in processes.descendants(root):
        with suppress(OSError):
            found[each.pid] = Path(f"/proc/{each.pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    return found


def test_what_a_host_and_guard_killed_together_left_is_cleared_up_by_the_next_host(home: Path, plane: Plane) -> None:
    host = start_host(home, plane, "wkr-1:one")
    job = plane.submit(CommandJob(command=("/bin/sh", "-c", "setsid sleep 600 & echo up; sleep 600")))
    wait_for_line(plane, job.id, "up")
    (guard,) = guards_of(host.pid)
    os.kill(host.pid, signal.SIGSTOP)
    os.kill(guard, signal.SIGKILL)
    host.kill()
    host.wait()
    assert wait_ended(plane, job.id).state is JobState.LOST
    assert any("sleep 600" in words for words in left_running(home).values())

    second = start_host(home, plane, "wkr-2:two")

    deadline = time.monotonic() + 20.0
    while any("sleep 600" in words for words in left_running(home).values()) or list((home / "tasks").iterdir()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert not list((home / "locks").glob("task-*"))
    for each in (host, second):
        assert each.stdin is not None
        each.stdin.close()
    assert second.wait(20) == 0


def test_a_job_of_a_killed_caller_is_cancelled(home: Path, plane: Plane) -> None:
    script = "echo up; trap 'echo saved > saved; exit 1' TERM; while :; do sleep 0.05; done"
    with Caller(home, script, farewell=False) as caller:
        wait_for_line(plane, caller.job_id, "up")

        caller.kill()

        job = wait_ended(plane, caller.job_id)
    assert (job.state, job.reason) == (JobState.CANCELLED, Reason.CALLER_GONE)
    assert [artifact.path for artifact in plane.artifacts(job.id)] == ["node0/saved"]


def test_a_job_whose_caller_said_farewell_goes_on_to_its_end(home: Path, plane: Plane, tmp_path: Path) -> None:
    script = f"echo up; while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; echo done"
    with Caller(home, script, farewell=True) as caller:
        wait_for_line(plane, caller.job_id, "up")

        caller.kill()
        (tmp_path / "go").touch()

        job = wait_ended(plane, caller.job_id)
    assert (job.state, job.reason) == (JobState.SUCCEEDED, Reason.DONE)


def test_a_host_that_is_asked_to_go_ends_its_tasks(home: Path, plane: Plane) -> None:
    host = start_host(home, plane, "wkr-1:one")
    job = plane.submit(CommandJob(command=("/bin/sh", "-c", "echo up; sleep 600")))
    wait_for_line(plane, job.id, "up")

    host.send_signal(signal.SIGTERM)

    assert host.wait(20) == 0
    assert host.stdin is not None
    host.stdin.close()
    assert wait_ended(plane, job.id).reason is Reason.WORKER_LOST


def test_an_interrupt_of_the_terminal_is_not_the_hosts(home: Path, plane: Plane) -> None:
    host = start_host(home, plane, "wkr-1:one")

    host.send_signal(signal.SIGINT)

    job = wait_ended(plane, plane.submit(CommandJob(command=("true",))).id)
    assert job.state is JobState.SUCCEEDED
    assert host.stdin is not None
    host.stdin.close()
    assert host.wait(20) == 0
    assert not {words for words in left_running(home).values() if "worker.local" in words}
