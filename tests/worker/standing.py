"""Standing workers as programs of their own, and jobs for them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gpulayer.plane import Cursor, Plane
from gpulayer.spec.job import CommandJob
from gpulayer.spec.records import JobRecord
from gpulayer.worker import processes

WAIT_S = 30.0


class Started:
    """``gpulayer worker start``; leaving the block kills it if it still runs. ``at`` says to which plane it goes."""

    def __init__(self, *options: str, at: Sequence[str] = (), **environ: str) -> None:
        words = [sys.executable, "-m", "gpulayer", *at, "worker", "start", *options]
        self.process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **environ}
        )
        assert self.process.stdout is not None
        self.said = self.process.stdout.readline()

    def __enter__(self) -> Started:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate(timeout=WAIT_S)

    def signal(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    def ended(self) -> int:
        """Wait for its end and return the exit code."""
        return self.process.wait(WAIT_S)

    def words(self) -> str:
        """Return what it said on stderr, once it has ended."""
        return self.process.communicate(timeout=WAIT_S)[1]


def guards_of(worker: int) -> list[int]:
    """Return the guards of a worker process that have a task; those that wait for one have no process."""
    below = processes.descendants(worker)
    busy = {each.parent for each in below}
    return [each.pid for each in below if each.parent == worker and each.pid in busy]


def run(plane: Plane, script: str, **fields: Any) -> JobRecord:
    """Submit a shell command."""
    return plane.submit(CommandJob(command=("/bin/sh", "-c", script), **fields))


def follow(plane: Plane, job_id: str, until: Callable[[Any], object]) -> JobRecord:
    """Follow a job until its news fit."""
    cursor = Cursor()
    while True:
        news = plane.news(job_id, cursor, timeout_s=WAIT_S)
        if until(news):
            return news.job
        assert news.cursor != cursor, f"nothing came: {news.job}"
        cursor = news.cursor


def ended(plane: Plane, job_id: str) -> JobRecord:
    return follow(plane, job_id, lambda news: news.job.state.terminal)


def printed(plane: Plane, job_id: str, text: str) -> JobRecord:
    """Wait until a job printed a line."""
    return follow(plane, job_id, lambda news: any(line.text == text for line in news.lines))


def signals(path: Path) -> str:
    """Write a shell loop that waits for a file."""
    return f"while [ ! -e {path} ]; do sleep 0.05; done"
