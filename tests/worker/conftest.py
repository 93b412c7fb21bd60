"""Agents on a recording plane, and a work folder packed as a bundle."""

from __future__ import annotations

import os
import sys
import textwrap
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpulayer.spec.base import new_id
from gpulayer.spec.workers import WorkerInfo
from gpulayer.worker import hardware
from gpulayer.worker.agent import Agent
from gpulayer.worker.site import Site
from tests.worker.recording import RecordingPlane, Spec


class Fleet:
    """Some agents of one home on one recording plane."""

    def __init__(
        self, plane: RecordingPlane, home: Path, count: int, environ: dict[str, str], leased: bool, address: str
    ) -> None:
        self.plane = plane
        can = hardware.capabilities(home, {"CUDA_VISIBLE_DEVICES": ""}, address)
        infos = [WorkerInfo(id=new_id("wkr"), name=f"w{at}", capabilities=can) for at in range(count)]
        self._sites = [Site(plane, home, home, info, environ, leased) for info in infos]  # type: ignore[arg-type]
        self.agents: list[Agent] = []
        self.threads: list[threading.Thread] = []
        for info in infos:
            plane.register(info)
        self.start_again()

    def start_again(self) -> None:
        """Start all workers, as new processes of theirs would."""
        for site in self._sites:
            agent = Agent(site)
            agent.take_over()
            self.agents.append(agent)
            self.threads.append(threading.Thread(target=agent.run, daemon=True))
            self.threads[-1].start()

    def die(self) -> None:
        """End as killed hosts would, once their tasks can go no further without the plane."""
        for agent in self.agents:
            agent.leave()
            agent.give_up()
            assert agent.await_idle(20.0)
        for note in self._sites[0].home.glob("tasks/*/order.json"):  # this test lives; a killed host would not
            note.write_text(note.read_text().replace(f'"host":{os.getpid()}', '"host":999999999'))

    def close(self) -> None:
        for agent in self.agents:
            agent.leave()
            agent.abandon()
            agent.give_up()
        self.plane.close()
        for agent, thread in zip(self.agents, self.threads, strict=True):
            assert agent.await_idle(30.0)
            thread.join(10.0)


@pytest.fixture
def fleet(home: Path) -> Iterator[Callable[..., Fleet]]:
    """Start agents for a job: ``fleet(plane, 2)``."""
    started: list[Fleet] = []

    def start(
        plane: RecordingPlane, count: int = 1, *, leased: bool = False, address: str = "127.0.0.1", **environ: str
    ) -> Fleet:
        found = Fleet(plane, home, count, {**os.environ, **environ}, leased, address)
        started.append(found)
        return found

    yield start
    for each in started:
        each.close()


@pytest.fixture
def bundled(tmp_path: Path) -> Callable[..., tuple[RecordingPlane, Spec]]:
    """Make a plane that has the given files as a bundle: ``bundled(spec, {"train.py": "..."})``."""

    def make(spec: Spec, files: dict[str, str], **options: object) -> RecordingPlane:
        archive = tmp_path / f"{new_id('job')}.zip"
        with zipfile.ZipFile(archive, "w") as writing:
            for name, text in files.items():
                writing.writestr(name, textwrap.dedent(text))
        plane = RecordingPlane(spec, **options)  # type: ignore[arg-type]
        plane.spec = spec.model_copy(update={"source": plane.put_blob(archive).sha256})
        return plane

    return make  # type: ignore[return-value]


@pytest.fixture
def python() -> str:
    return sys.executable
