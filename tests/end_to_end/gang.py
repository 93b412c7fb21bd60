"""Three standing workers of one home, as programs of their own, and gangs for them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpulayer import plane as planes
from gpulayer.client import source
from gpulayer.plane import Plane
from gpulayer.spec.job import DistributedJob
from gpulayer.spec.news import Cursor
from gpulayer.spec.records import JobRecord
from tests.end_to_end.processes import await_ends, of_home
from tests.waiting import wait_for

GPULAYER = (sys.executable, "-m", "gpulayer")
WAIT_S = 120.0
NAMES = ("red", "blue", "green")


class Gang:
    """Serves ``programs`` as the source of every job; each worker takes one task at a time."""

    def __init__(self, home: Path, programs: Path) -> None:
        self.home = home
        self._log = home.with_suffix(".log")
        self.workers = {name: self._start(name) for name in NAMES}
        self.plane: Plane = planes.open(home, process="cli")
        wait_for(lambda: len(self.plane.workers()) == len(NAMES), within=60, what="all workers serve")
        self.source = source.store(self.plane, programs, home=home).sha256

    def _start(self, name: str) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen([*GPULAYER, "worker", "start", "--name", name], env=self.env, stdout=log, stderr=log)

    def kill(self, name: str) -> None:
        self.workers[name].kill()
        self.workers[name].wait()

    def restart(self, name: str) -> None:
        """Start a worker that was killed, and wait until it serves."""
        self.workers[name] = self._start(name)
        wait_for(lambda: len(self.plane.workers()) == len(NAMES), within=60, what=f"{name} is back")

    @property
    def env(self) -> dict[str, str]:
        return {**os.environ, "GPULAYER_HOME": str(self.home), "OMP_NUM_THREADS": "1"}

    def submit(self, *words: str, nodes: int = 3, procs: int = 1, **fields: Any) -> JobRecord:
        """Submit a script with its arguments; nobody follows it."""
        entrypoint, *args = words
        shape = {"entrypoint": entrypoint, "args": args, "num_workers": nodes, "procs_per_worker": procs}
        spec = {**shape, "source": self.source, "on_unschedulable": "queue", **fields}
        return self.plane.submit(DistributedJob.model_validate(spec))

    def follow(self, job_id: str, until: Callable[[Any], object]) -> JobRecord:
        """Follow a job until its news fit."""
        cursor = Cursor()
        while True:
            news = self.plane.news(job_id, cursor, timeout_s=WAIT_S)
            if until(news):
                return news.job
            assert news.cursor != cursor, f"nothing came: {news.job}\n{self._log.read_text()[-3000:]}"
            cursor = news.cursor

    def ended(self, job_id: str) -> JobRecord:
        return self.follow(job_id, lambda news: news.job.state.terminal)

    def printed(self, job_id: str, text: str) -> JobRecord:
        """Wait until any rank printed a line."""
        return self.follow(job_id, lambda news: any(line.text == text for line in news.lines))

    def run(self, *words: str, **fields: Any) -> JobRecord:
        return self.ended(self.submit(*words, **fields).id)

    def text(self, job_id: str) -> list[str]:
        return [line.text for line in self.plane.lines(job_id) if line.rank is not None]

    def nothing_runs(self, *, within: float = 10.0) -> None:
        wait_for(lambda: not of_home(self.home), within=within, what="no process of any task is left")

    def close(self) -> None:
        self.plane.close()
        for worker in self.workers.values():
            worker.send_signal(signal.SIGCONT)
            worker.send_signal(signal.SIGTERM)
        await_ends(self.workers.values())
