"""Commands that follow a job while its plane is away."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty, Queue
from threading import Thread

import pytest

from gpulayer.plane.remote import RemotePlane
from gpulayer.spec.job import CommandJob
from gpulayer.transport.address import Address
from tests.control.given import until
from tests.server.running import Server

SOON_S = 30.0


class Running:
    """A command of ours, whose words on stderr can be waited for."""

    def __init__(self, server: Server, folder: Path, *arguments: str) -> None:
        env = {**os.environ, "GPULAYER_URL": server.url, "GPULAYER_TOKEN": f"{server.token()}.{server.told['fingerprint']}"}
        command = [sys.executable, "-m", "gpulayer", *arguments]
        self.process = subprocess.Popen(command, cwd=folder, env=env, stderr=subprocess.PIPE, text=True)
        self._said: Queue[str] = Queue()
        self._reading = Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._said.put(line)

    def says(self, words: str) -> None:
        heard: list[str] = []
        while not heard or words not in heard[-1]:
            try:
                heard.append(self._said.get(timeout=SOON_S))
            except Empty:
                raise AssertionError(f"{words!r} was not said: {heard}") from None

    def press(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reading.join()
        assert self.process.stderr is not None
        self.process.stderr.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    (tmp_path / "server").mkdir()
    found = Server(tmp_path / "server", "--host", "0.0.0.0").start()
    yield found
    found.close()


@pytest.fixture
def begin(server: Server, tmp_path: Path) -> Iterator[Callable[..., Running]]:
    begun: list[Running] = []
    (tmp_path / "project").mkdir()

    def start(*arguments: str) -> Running:
        begun.append(Running(server, tmp_path / "project", *arguments))
        return begun[-1]

    yield start
    for each in begun:
        each.end()


def test_a_second_ctrl_c_leaves_at_once_and_says_that_the_job_may_still_run(
    server: Server, begin: Callable[..., Running]
) -> None:
    running = begin("run", "--queue", "--", "true")
    running.says("queued")
    server.kill()
    running.press()
    running.says("stopping the job; Ctrl-C again kills it")
    running.press()
    running.says("the plane does not answer; the job may still run: gpulayer jobs cancel job-")
    assert running.process.wait(10) == 130


def test_who_follows_lines_says_that_the_plane_is_away_and_when_it_is_back(
    server: Server, begin: Callable[..., Running]
) -> None:
    plane = RemotePlane(Address(server.url, f"{server.token()}.{server.told['fingerprint']}"))
    job = plane.submit(CommandJob(command=("true",), placement={"target": "remote"}, on_unschedulable="queue"))
    running = begin("jobs", "logs", "-f", job.id)
    port = server.port
    with server.asked_by(verify=False) as client:
        until(lambda: "gpulayer_waiting 1.0" in client.get("/metrics").text, SOON_S)
    server.kill()
    running.says("the plane does not answer; asking again")
    server.start(port)
    running.says("the plane answers again")
    plane.close()
