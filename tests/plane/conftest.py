"""A plane of each kind, under one name: what the same tests ask of both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpulayer import plane as planes
from gpulayer.plane import Plane
from tests.server.running import Server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for the tests of a file."""
    data = tmp_path_factory.mktemp("server")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPULAYER_HOME", str(data))  # it outlives the home of the test that is first to ask for it
        started = Server(data).start()
    yield started
    started.close()


@pytest.fixture(params=["embedded", "remote"])
def plane(request: pytest.FixtureRequest, home: Path) -> Iterator[Plane]:
    if request.param == "embedded":
        opened = planes.open(home)
    else:
        server: Server = request.getfixturevalue("server")
        opened = planes.open(server.url, token=server.token())
    yield opened
    opened.close()
    if request.param == "remote":
        empty(server)


def empty(server: Server) -> None:
    """Leave no job and no worker to the next test."""
    opened = planes.open(server.url, token=server.token())
    for worker in opened.workers():
        opened.remove_worker(worker.info.id)
    for job in opened.jobs():
        opened.cancel(job.id, kill=True)
        opened.remove(job.id)
    opened.close()
