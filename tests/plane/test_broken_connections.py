"""Connections that break in the middle of files and lines: callers don't see it, and nothing is sent twice from the start."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpulayer import plane as planes
from gpulayer.plane import Plane
from gpulayer.plane.blobs import PART
from tests.control.given import a_command, a_worker, some_lines
from tests.plane.relay import Relay
from tests.server.running import Server

MANY = 3 * PART + 12345


@pytest.fixture
def relay(server: Server) -> Iterator[Relay]:
    made = Relay(server.port)
    yield made
    made.close()


@pytest.fixture
def plane(relay: Relay, server: Server) -> Iterator[Plane]:
    opened = planes.open(relay.url, token=server.token())
    yield opened
    opened.close()


def test_an_upload_goes_on(plane: Plane, relay: Relay, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(os.urandom(MANY))
    relay.break_next(2, after=PART + 1_000_000)
    blob = plane.put_blob(tmp_path / "file")
    assert relay.broken == 2
    plane.fetch_blob(blob.sha256, tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == (tmp_path / "file").read_bytes()


def test_a_download_goes_on(plane: Plane, relay: Relay, tmp_path: Path) -> None:
    data = os.urandom(MANY)
    blob = plane.put_blob(data)
    relay.break_next(3, after=5_000_000)
    plane.fetch_blob(blob.sha256, tmp_path / "back")
    assert relay.broken == 3
    assert (tmp_path / "back").read_bytes() == data
    relay.break_next(2, after=1_000_000)
    with plane.open_blob(blob.sha256) as opened:
        opened.seek(1_000)
        assert opened.read() == data[1_000:]
    assert relay.broken == 5


def test_reading_lines_goes_on(plane: Plane, relay: Relay) -> None:
    worker = plane.register(a_worker(origin="existing")).info
    job = plane.submit(a_command(placement={"target": "remote"}))
    assert plane.orders(worker.id, timeout_s=10).orders
    texts = [f"{at} {'x' * 1000}" for at in range(3000)]
    for first in range(0, len(texts), 500):
        plane.append_lines(job.id, some_lines(job.id, texts[first : first + 500], first=first))
    relay.break_next(2, after=1_500_000)
    assert [line.text for line in plane.lines(job.id)] == texts
    assert relay.broken == 2


def test_a_large_file_needs_no_memory(server: Server, tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        file.truncate(256 * 1024 * 1024)
    program = """
import resource, sys
from pathlib import Path
from gpulayer import plane
opened = plane.open(sys.argv[1], token=sys.argv[2])
opened.put_blob(b"x")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
blob = opened.put_blob(Path(sys.argv[3]))
opened.fetch_blob(blob.sha256, Path(sys.argv[3] + ".back"))
opened.close()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, server.url, server.token(), str(tmp_path / "file")],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    grown = int(done.stdout) * 1024  # Linux counts it in kilobytes
    assert grown < 64 * 1024 * 1024
    assert (tmp_path / "file.back").stat().st_size == 256 * 1024 * 1024
