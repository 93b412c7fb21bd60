"""Checkpoints that can't be saved, are saved in the background, go while they are sent, or are gone on from."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gpulayer import plane
from gpulayer.spec.states import JobState, Reason
from tests.server.running import Server
from tests.waiting import wait_for
from tests.worker.standing import Started

from .processes import SCRIPT_S, of_home

pytestmark = pytest.mark.timeout(3 * SCRIPT_S)
PROGRAM = Path(__file__).parent / "programs" / "shipping.py"
REMOTE = {"target": "remote", "forward_env": ["MODE"]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "caller"
    folder.mkdir()
    shutil.copy(PROGRAM, folder)
    (folder / "pyproject.toml").touch()
    return folder


def start(folder: Path, mode: str, **env: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "shipping.py"],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "MODE": mode, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )


def run(folder: Path, mode: str, **env: str) -> dict[str, Any]:
    process = start(folder, mode, **env)
    out, err = process.communicate(timeout=SCRIPT_S)
    assert process.returncode == 0, out + err
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


def test_a_save_that_fails_on_rank_0_is_the_callers_error_and_leaves_no_process(folder: Path, home: Path) -> None:
    told = run(folder, "unsaved")

    assert told["error"] == ["OSError", 28, "No space left on device", "best.ckpt"]
    with closing(plane.open(home)) as opened:
        job = wait_for(lambda: (found := opened.job(told["job"])).state.terminal and found, within=30, what="its end")
    assert (job.state, job.reason) == (JobState.FAILED, Reason.USER_ERROR)
    assert job.cause is not None
    assert job.cause.rank == 0
    wait_for(lambda: not of_home(home), within=10, what="the end of the job's processes")


def test_saves_in_the_background_are_whole_while_the_weights_change_and_a_second_call_works(folder: Path) -> None:
    assert run(folder, "background") == {"saves": 8, "whole": True, "loss": True}


def test_a_test_without_a_fit_on_two_nodes_with_loader_workers_and_two_fits_and_a_test_after_it_are_one_job(
    folder: Path, home: Path
) -> None:
    told = run(folder, "tested")

    assert (told["rows"], told["steps"]) == ([32.0, 32.0], [4, 4])
    with closing(plane.open(home)) as opened:
        assert len(opened.jobs()) == 1
        said = {(line.rank, line.text) for line in opened.lines(told["job"]) if line.text.startswith("NODE")}
        assert said == {(0, "NODE 0"), (1, "NODE 1")}
        wait_for(lambda: opened.job(told["job"]).state is JobState.SUCCEEDED, within=30, what="its end, threads or not")
    wait_for(lambda: not of_home(home), within=10, what="the end of the job's processes")


def test_after_a_kill_last_goes_on_at_the_right_epoch_step_and_version_and_no_row_is_lost(folder: Path, home: Path) -> None:
    killed = run(folder, "counted", DIE="1")["job"]
    told = run(folder, "counted")

    assert (told["ended"], told["version"], told["log_dir"]) == ([4, 16], 1, "logs/version_1")
    steps = [line.split(",")[2] for line in (folder / "logs/version_1/metrics.csv").read_text().splitlines()[1:]]
    assert steps == [str(step) for step in range(8, 16)]
    with closing(plane.open(home)) as opened:
        first, second = ([line.text.split() for line in opened.lines(job)] for job in (killed, told["job"]))
    assert [words[1:] for words in second if words[:1] == ["BEGAN"]] == [["2", "8"]] * 2
    every = [str(row) for row in range(32)]
    for epoch, said in (("0", first), ("1", first), ("2", second), ("3", second)):
        seen = Counter(row for words in said if words[:2] == ["ROWS", epoch] for row in words[2:])
        assert seen == Counter(every), epoch  # what the broken epoch had seen is seen again: docs/how-to/resume.md


def test_a_job_that_is_cancelled_during_a_step_ends_with_143_and_keeps_its_checkpoint(folder: Path, home: Path) -> None:
    process = start(folder, "stopped")
    assert process.stdout is not None
    with closing(plane.open(home)) as opened:
        for line in process.stdout:
            if line == "STEPPING\n":
                break
        (job,) = opened.jobs()
        cancel = [sys.executable, "-m", "gpulayer", "jobs", "cancel", job.id]
        assert subprocess.run(cancel, capture_output=True, timeout=60, check=False).returncode == 0
        _, err = process.communicate(timeout=SCRIPT_S)
        job = opened.job(job.id)
        assert (job.state, job.reason) == (JobState.CANCELLED, Reason.CANCELLED_BY_USER), err
        assert [task.exit_code for task in job.tasks] == [128 + signal.SIGTERM]
        assert "node0/kept/on_exception.ckpt" in [each.path for each in opened.artifacts(job.id)]
    assert process.returncode != 0
    wait_for(lambda: not of_home(home), within=10, what="the end of the job's processes")


class Far:
    """A server, and a worker on a line to it that is as long as the file ``delay`` says."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.server = Server(folder).start()
        self.delay = folder / "delay"
        self.delay.write_text("0")
        relay = Path(__file__).parents[1] / "network" / "relay.py"
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = str(free.getsockname()[1])
        argv = [sys.executable, str(relay), port, "127.0.0.1", str(self.server.port), str(self.delay)]
        self._relay = subprocess.Popen(argv, stdout=subprocess.PIPE)
        assert self._relay.stdout is not None
        assert self._relay.stdout.readline() == b"up\n"
        token = folder / "join.token"
        token.write_text(self.server.token("join"))
        at = ("--url", self.server.url.replace(str(self.server.port), port), "--token-file", str(token))
        self.worker = Started("--work-dir", str(folder / "worker"), "--advertise-address", "127.0.0.1", at=at)

    @property
    def caller(self) -> dict[str, str]:
        """The environment of a person who has an address and a token."""
        return {"GPULAYER_URL": self.server.url, "GPULAYER_TOKEN": self.server.token("user"), "JOB": json.dumps(REMOTE)}

    def plane(self) -> plane.Plane:
        return plane.open(self.server.url, token=self.server.token())

    def close(self) -> None:
        self.worker.signal()
        self.worker.__exit__()
        self._relay.kill()
        self._relay.communicate()
        self.server.close()


@pytest.fixture
def far(tmp_path: Path) -> Iterator[Far]:
    made = Far(tmp_path / "far")
    try:
        yield made
    finally:
        made.close()


def test_lightnings_own_logger_and_checkpoint_come_back_from_a_worker_with_a_disk_of_its_own_and_none_is_lost_on_a_slow_line(
    folder: Path, far: Far
) -> None:
    told = run(folder, "defaults", **far.caller)
    assert (told["best"], told["step"]) == ("lightning_logs/version_0/checkpoints/epoch=0-step=4.ckpt", 4)
    assert (folder / told["log_dir"] / "metrics.csv").exists() or list((folder / told["log_dir"]).iterdir())

    far.delay.write_text("0.5")  # a file takes two questions, each a second there and back
    told = run(folder, "slow", **far.caller)
    assert (told["best"], told["here"]) == ("kept/epoch=2.ckpt", ["epoch=2.ckpt"])
    with closing(far.plane()) as opened:
        saves = opened.checkpoints(told["job"])
    assert [(each.path, each.removed) for each in saves] == [
        ("kept/epoch=0.ckpt", True),
        ("kept/epoch=1.ckpt", True),
        ("kept/epoch=2.ckpt", False),
    ]
    far.delay.write_text("0")
