"""``gpulayer up`` has workers stay in a home, for jobs that are left; ``gpulayer down`` sends them away."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpulayer import plane as planes
from gpulayer.plane import Plane
from gpulayer.spec.states import JobState
from gpulayer.worker import kept
from tests.cli.conftest import Cli
from tests.worker.standing import printed

Told = Callable[..., Any]
GPULAYER = [sys.executable, "-m", "gpulayer"]

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(autouse=True)
def _down(home: Path, cli: Cli) -> Iterator[None]:
    yield
    cli("down", "--kill")


@pytest.fixture
def plane(home: Path) -> Iterator[Plane]:
    opened = planes.open(home, process="cli")
    yield opened
    opened.close()


def test_a_job_is_left_to_workers_that_stay_and_they_go_when_told(home: Path, cli: Cli, told: Told) -> None:
    up = told("up", "--workers", "2")
    assert [(each["state"], each["owner"], each["name"].rpartition("-")[2]) for each in up] == [
        ("online", None, "up0"),
        ("online", None, "up1"),
    ]

    job = cli("run", "--detach", "--", "sh", "-c", "echo made > out.txt").stdout.strip()

    assert cli("jobs", "wait", job).exit_code == 0
    assert cli("artifacts", "cat", job, "node0/out.txt").stdout == "made\n"
    assert "2 workers left" in cli("down").stderr
    assert told("workers", "ls") == []
    assert "no worker of gpulayer up is in" in cli("down").stderr


def test_up_again_starts_only_those_that_are_missing(home: Path, cli: Cli) -> None:
    cli("up", "--workers", "2")
    first, second = kept.living(home)
    os.kill(first.pid, signal.SIGKILL)
    assert kept.await_end(home, [first], 30.0) == []

    cli("up", "--workers", "2")

    again, same = kept.living(home)
    assert same == second
    assert (again.number, again.worker_id) == (first.number, first.worker_id)
    assert again.pid != first.pid


def test_down_waits_for_what_runs_and_now_stops_it(home: Path, cli: Cli, told: Told, plane: Plane) -> None:
    cli("up")
    script = "trap 'echo saved > out.txt; exit 0' TERM; echo on; sleep 600 & wait"
    job_id = cli("run", "--detach", "--", "sh", "-c", script).stdout.strip()
    printed(plane, job_id, "on")
    waiting = subprocess.Popen([*GPULAYER, "down"], stderr=subprocess.PIPE, text=True)
    assert waiting.stderr is not None
    with waiting.stderr as words:
        assert f"waiting for {job_id} to end" in words.readline()
        assert plane.job(job_id).state is JobState.RUNNING
        assert [each["state"] for each in told("up")] == ["draining", "online"]

        cli("down", "--now")

        assert words.readline() == "gpulayer: 1 worker left\n"
    assert waiting.wait(30.0) == 0
    assert [each.path for each in plane.artifacts(job_id)] == ["node0/out.txt"]


def test_a_worker_that_does_not_come_up_is_told_of_in_its_own_words(home: Path, cli: Cli) -> None:
    (home / "up" / "0").mkdir(parents=True)
    (home / "up" / "0" / "identity.json").write_text("{")

    refusal = cli("up", exits=1)

    assert "A worker did not come up" in refusal.stderr
    assert "identity.json is damaged" in refusal.stderr


def test_up_is_not_for_a_plane_elsewhere(cli: Cli) -> None:
    refusal = cli("--url", "https://plane.example", "up", exits=2)

    assert "`gpulayer worker start`" in refusal.stderr


def test_leaving_a_job_to_too_few_workers_says_how_many_stay_and_how_to_have_more(cli: Cli, tmp_path: Path) -> None:
    cli("up")
    (tmp_path / "train.py").write_text("")

    refusal = cli("launch", "--num-workers", "2", "--detach", str(tmp_path / "train.py"), exits=2)

    assert "it needs 2 workers that stay, and 1 would" in refusal.stderr
    assert "gpulayer up --workers 2" in refusal.stderr
