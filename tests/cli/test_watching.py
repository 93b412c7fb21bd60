"""``--watch`` shows a list again whenever it changes, until Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gpulayer import plane as planes
from gpulayer.spec.job import CommandJob

pytestmark = pytest.mark.timeout(60)

WATCH = [sys.executable, "-m", "gpulayer", "jobs", "ls", "--watch"]


def submit(home: Path) -> str:
    plane = planes.open(home, process="cli")
    try:
        return plane.submit(CommandJob(command=("true",), on_unschedulable="queue")).id
    finally:
        plane.close()


def test_into_a_pipe_each_change_is_a_list_of_its_own(home: Path) -> None:
    first = submit(home)
    with subprocess.Popen([*WATCH, "-q"], stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        assert watching.stdout.readline() == f"{first}\n"
        second = submit(home)
        assert [watching.stdout.readline() for _ in range(2)] == [f"{second}\n", f"{first}\n"]
        watching.send_signal(signal.SIGINT)
        assert watching.stdout.read() == ""
    assert watching.returncode == 0


def test_in_a_terminal_the_list_stays_in_its_place_and_leaves_the_screen_as_it_was(home: Path) -> None:
    job = submit(home)
    ours, its = os.openpty()
    watching = subprocess.Popen(WATCH, stdout=its, stdin=its, stderr=its, env={**os.environ, "TERM": "xterm", "COLUMNS": "60"})
    os.close(its)
    seen = b""
    while job.encode() not in seen:
        seen += os.read(ours, 65536)
    watching.send_signal(signal.SIGINT)
    assert watching.wait(30) == 0
    while b"\x1b[?1049l" not in seen:
        seen += os.read(ours, 65536)
    os.close(ours)
    assert b"\x1b[?1049h" in seen.partition(job.encode())[0]
