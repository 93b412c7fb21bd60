"""Planes to measure, each with one standing worker: embedded in a home, and a server of its own over HTTP on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpulayer import plane as planes
from gpulayer.plane import Plane

GPULAYER = (sys.executable, "-m", "gpulayer")


@dataclass(frozen=True)
class Standing:
    """A plane; jobs say ``target``, programs reach it by ``environ``, ``pids`` are its processes by what they are."""

    plane: Plane
    target: str
    environ: Mapping[str, str]
    pids: Mapping[str, int]


@contextmanager
def embedded(folder: Path) -> Iterator[Standing]:
    environ = {**clean(), "GPULAYER_HOME": str(folder / "home")}
    with ExitStack() as started:
        worker = started.enter_context(running(environ, "worker", "start", "--name", "bench"))
        plane = planes.open(folder / "home")
        started.callback(plane.close)
        yield Standing(plane, "local", environ, {"worker": worker.pid})


@contextmanager
def hosted(folder: Path) -> Iterator[Standing]:
    environ = {**clean(), "GPULAYER_HOME": str(folder / "home")}
    with ExitStack() as started:
        server = started.enter_context(server_in(folder, environ))
        url = server.url
        token = token_for("admin", folder, environ)
        (folder / "join").write_text(token_for("join", folder, environ))
        join = ("--url", url, "--token-file", str(folder / "join"))
        worker = started.enter_context(running(environ, *join, "worker", "start", "--name", "bench"))
        plane = planes.open(url, token=token)
        started.callback(plane.close)
        reached = {**environ, "GPULAYER_URL": url, "GPULAYER_TOKEN": token}
        yield Standing(plane, "remote", reached, {"server": server.pid, "worker": worker.pid})


PLANES = {"embedded": embedded, "http": hosted}


def server_in(folder: Path, environ: Mapping[str, str], *options: str) -> AbstractContextManager[Running]:
    """Run a server whose data lie in a folder."""
    return running(environ, "server", "start", "--port", "0", "--data", str(folder / "server"), "--json", *options)


@dataclass(frozen=True)
class Running:
    """A program that said that it is ready, in the line ``said``."""

    pid: int
    said: str

    @property
    def url(self) -> str:
        return str(json.loads(self.said)["url"])


@contextmanager
def running(environ: Mapping[str, str], *words: str) -> Iterator[Running]:
    """Run the command line until the block ends."""
    program = subprocess.Popen((*GPULAYER, *words), env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert program.stdout is not None
        said = program.stdout.readline()
        assert said, f"{program.args} ended with {program.wait()}"
        yield Running(program.pid, said)
    finally:
        end(program)
        program.stdout.close()


def end(program: subprocess.Popen[Any]) -> None:
    """Tell a program to end, and kill one that does not."""
    program.terminate()
    try:
        program.wait(20)
    except subprocess.TimeoutExpired:
        program.kill()
        program.wait()


def token_for(role: str, folder: Path, environ: Mapping[str, str]) -> str:
    argv = (*GPULAYER, "tokens", "create", "--role", role, "--data", str(folder / "server"), "--json")
    made = subprocess.run(argv, env=environ, capture_output=True, check=True, text=True)
    return str(json.loads(made.stdout)["token"])


def clean() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("GPULAYER_")}


class Memory:
    """How much a process's resident memory grew, at its highest, since this was made."""

    def __init__(self, pid: int | str) -> None:
        self._status = Path(f"/proc/{pid}/status")
        Path(f"/proc/{pid}/clear_refs").write_text("5")
        self._before = self._read("VmRSS")

    def grown_mb(self) -> float:
        return (self._read("VmHWM") - self._before) / 1024

    def _read(self, name: str) -> int:
        return next(int(line.split()[1]) for line in self._status.read_text().splitlines() if line.startswith(name))
