"""Starts the workers that this process needs on this machine, and sees them off."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from gpulayer.errors import WorkerStartFailed
from gpulayer.plane import Plane
from gpulayer.spec.base import new_id

START_S = 60.0
"""How long workers may take to register."""


class LocalWorkers:
    """The worker hosts of one process in one home; each is a process of its own session that hosts some workers.

    A host watches this process by pidfd and by the pipe that it has as standard input. ``owner`` is the id under which
    this process is known in the home: its workers take only its jobs.
    """

    def __init__(self, home: Path, owner: str) -> None:
        self._home = home
        self._owner = owner
        self._hosts: list[tuple[subprocess.Popen[bytes], Path]] = []
        self._ids: list[str] = []
        self._lock = threading.Lock()

    def ensure(self, count: int) -> None:
        """Have at least ``count`` workers started, without waiting for them."""
        with self._lock:
            missing = count - len(self._ids)
            if missing > 0:
                fresh = [new_id("wkr") for _ in range(missing)]
                self._hosts.append(self._start(fresh))
                self._ids += fresh

    def wait(self, plane: Plane, timeout_s: float = START_S) -> None:
        """Wait until all are registered; raises ``WorkerStartFailed`` with what the host said when one isn't."""
        deadline = time.monotonic() + timeout_s
        while missing := set(self._ids) - {worker.info.id for worker in plane.workers()}:
            self.check()
            if time.monotonic() > deadline:
                raise self._failure(f"{len(missing)} of {len(self._ids)} local workers did not come up in {timeout_s:.0f} s.")
            time.sleep(0.01)

    def check(self) -> None:
        """Raise ``WorkerStartFailed`` when a host has ended."""
        for host, _ in self._hosts:
            if host.poll() is not None:
                raise self._failure(f"The local worker host ended with status {host.returncode}.")

    @property
    def alive(self) -> bool:
        return all(host.poll() is None for host, _ in self._hosts)

    def forget_dead(self) -> None:
        """Drop hosts that have ended with all their workers, so that ``ensure`` starts others."""
        with self._lock:
            if not self.alive:
                self.close(1.0)
                self._hosts, self._ids = [], []

    def close(self, timeout_s: float) -> None:
        """Let the hosts end: the pipe's end tells them that no job will come; those that have work go on by themselves."""
        deadline = time.monotonic() + timeout_s
        for host, _ in self._hosts:
            if host.stdin is not None:
                host.stdin.close()
        for host, _ in self._hosts:
            try:
                host.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                # It still ships what the job left, and ends by itself; without this, Popen would warn of a child alive.
                host.returncode = 0

    def _start(self, ids: list[str]) -> tuple[subprocess.Popen[bytes], Path]:
        log = self._home / "logs" / f"host-{ids[0]}.log"
        self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
        log.parent.mkdir(exist_ok=True)
        name = socket.gethostname()
        workers = [f"{each}:{name}-{len(self._ids) + at}" for at, each in enumerate(ids)]
        argv = [sys.executable, "-P", "-m", "gpulayer.worker.local", "--home", str(self._home), "--owner", self._owner]
        argv += ["--watch-pid", str(os.getpid()), "--workers", *workers]
        with log.open("ab") as out:
            host = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=out,
                env=initial_environment(),
                cwd="/",
                start_new_session=True,
            )
        return host, log

    def _failure(self, sentence: str) -> WorkerStartFailed:
        said = [line for _, log in self._hosts for line in _tail(log)]
        return WorkerStartFailed(
            sentence + (f" It said: {' / '.join(said)}" if said else ""), log=[str(x) for _, x in self._hosts]
        )


def _tail(log: Path, lines: int = 3) -> list[str]:
    try:
        return log.read_text(errors="replace").strip().splitlines()[-lines:]
    except OSError:
        return []


def initial_environment() -> dict[str, str]:
    """Return the environment that this process was started with, whatever it set since."""
    try:
        raw = Path("/proc/self/environ").read_bytes()
    except OSError:
        raw = b""
    pairs = (item.partition(b"=") for item in raw.split(b"\0") if b"=" in item)
    found = {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs if name}
    return found or dict(os.environ)
