"""A worker with nothing to do asks seldom, by few connections; what it waits for wakes it, and what it prints wakes others."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpulayer import plane as planes
from gpulayer.plane import Cursor, Plane
from gpulayer.spec.states import JobState
from tests.plane.relay import Relay
from tests.server.running import Server
from tests.worker.standing import Started, run

_REQUEST = re.compile(rb"^(?:GET|POST|PUT|DELETE|HEAD) (\S+) HTTP/1\.1\r$", re.MULTILINE)
LEASE_S = 3.0
POLL_S, SOON_S = 150.0, 60.0
"""What is not woken is heard at the next poll, which is later than the deadline by far."""


class Counting(Relay):
    """Notes when each connection and each request came."""

    def __init__(self, port: int) -> None:
        self.connections = 0
        self.requests: list[tuple[float, str]] = []
        self.changed = threading.Condition()
        super().__init__(port)

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        if target.getpeername()[1] == self._to:
            with self.changed:
                self.connections += 1
            source = _Noted(source, self)  # type: ignore[assignment]
        super()._pass(source, target)

    def note(self, data: bytes) -> None:
        with self.changed:
            self.requests += [(time.monotonic(), path.decode()) for path in _REQUEST.findall(data)]
            self.changed.notify_all()


class _Noted:
    """A socket whose bytes are shown to a relay."""

    def __init__(self, source: socket.socket, relay: Counting) -> None:
        self._source = source
        self._relay = relay

    def recv(self, most: int) -> bytes:
        data = self._source.recv(most)
        self._relay.note(data)
        return data

    def __getattr__(self, name: str) -> object:
        return getattr(self._source, name)


@pytest.fixture
def server(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Server]:
    (tmp_path / "server").mkdir()
    started = Server(tmp_path / "server", "--lease-s", str(request.param)).start()
    yield started
    started.close()


@pytest.fixture
def plane(server: Server) -> Iterator[Plane]:
    opened = planes.open(server.url, token=server.token())
    yield opened
    opened.close()


def joining(server: Server, url: str, folder: Path) -> Started:
    token = folder / "join-token"
    token.write_text(server.token("join"))
    return Started(at=("--url", url, "--token-file", str(token)))


@pytest.mark.parametrize("server", [LEASE_S], indirect=True)
def test_an_idle_worker_asks_three_times_a_lease_by_two_connections_at_most(server: Server, tmp_path: Path) -> None:
    relay = Counting(server.port)
    with joining(server, relay.url, tmp_path):
        with relay.changed:
            assert relay.changed.wait_for(lambda: len(idle(relay)) > 7, 60)
        times = [at for at, _ in idle(relay)]
        assert {path.partition("?")[0].rpartition("/")[2] for _, path in idle(relay)} == {"orders"}
        # Each question is kept until its time is over, so that the fourth can't come before a lease has passed.
        assert all(after - before >= LEASE_S * 0.99 for before, after in zip(times, times[3:], strict=False))
        assert relay.connections <= 2
    relay.close()


def idle(relay: Counting) -> list[tuple[float, str]]:
    """Return the requests from the first on that the server keeps."""
    waits = [f"timeout_s={LEASE_S / 3}" in path for _, path in relay.requests]
    return relay.requests[waits.index(True) :] if True in waits else []


@pytest.mark.parametrize("server", [3 * POLL_S], indirect=True)
def test_an_assignment_a_line_and_a_stop_arrive_before_the_next_poll(server: Server, plane: Plane, tmp_path: Path) -> None:
    relay = Counting(server.port)
    with joining(server, relay.url, tmp_path) as worker:
        with relay.changed:
            assert relay.changed.wait_for(lambda: any(f"timeout_s={POLL_S}" in path for _, path in relay.requests), 60)
        began = time.monotonic()
        job = run(plane, "echo up; sleep 1000", placement={"target": "remote"})
        cursor, lines = Cursor(), list[str]()
        while not lines:
            news = plane.news(job.id, cursor, timeout_s=POLL_S)
            cursor, lines = news.cursor, [line.text for line in news.lines]
        assert lines == ["up"]
        plane.cancel(job.id, kill=True)
        while not news.job.state.terminal:
            news = plane.news(job.id, cursor, timeout_s=POLL_S)
            cursor = news.cursor
        assert news.job.state is JobState.CANCELLED
        assert time.monotonic() - began < SOON_S
        worker.signal()
        assert worker.ended() == 0
    relay.close()
