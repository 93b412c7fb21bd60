"""Resuming in a new process, and Ctrl-C, which leaves something to resume from."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gpulayer import plane
from tests.waiting import wait_for

from .processes import SCRIPT_S, of_home

pytestmark = pytest.mark.timeout(3 * SCRIPT_S)
PROGRAM = Path(__file__).parent / "programs" / "resuming.py"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "caller"
    folder.mkdir()
    shutil.copy(PROGRAM, folder)
    return folder


def start(folder: Path, *argv: str, **env: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "resuming.py", *argv],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )


def run(folder: Path, *argv: str, **env: str) -> dict[str, Any]:
    process = start(folder, *argv, **env)
    out, err = process.communicate(timeout=SCRIPT_S)
    assert process.returncode == 0, out + err
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


def test_a_path_a_word_and_a_job_continue_at_the_right_epoch_and_step(folder: Path, home: Path) -> None:
    first = run(folder, MAX_EPOCHS="2")
    assert (first["began"], first["ended"]) == ([0, 0], [2, 4])

    by_path = run(folder, first["last"], MAX_EPOCHS="3")
    assert (by_path["began"], by_path["ended"]) == ([2, 4], [3, 6])

    by_word = run(folder, "last", MAX_EPOCHS="4")
    assert (by_word["began"], by_word["ended"]) == ([3, 6], [4, 8])

    url = f"gpulayer://{first['job']}/last"
    by_job = run(folder, url, MAX_EPOCHS="3")
    assert (by_job["began"], by_job["ended"]) == ([2, 4], [3, 6])

    assert [each["path"] for each in (by_path, by_job)] == [first["last"], url]
    assert list((home / "resume").iterdir()) == []


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ("none.ckpt", ["FileNotFoundError", "Checkpoint file not found: none.ckpt"]),
        (
            "gpulayer://job-000000000000/last",
            ["FileNotFoundError", "Checkpoint file not found: gpulayer://job-000000000000/last"],
        ),
        (
            "best",
            ["ValueError", '`.fit(ckpt_path="best")` is set but `ModelCheckpoint` is not configured to save the best model.'],
        ),
    ],
)
def test_what_is_not_there_is_refused_in_lightnings_words_before_a_job_begins(
    folder: Path, home: Path, asked: str, error: list[str]
) -> None:
    told = run(folder, MAX_EPOCHS="1", FIRST_TRY=asked, ONLY_TRY="1")
    assert told["error"] == error
    with closing(plane.open(home)) as opened:
        assert opened.jobs() == []


def test_after_a_refused_call_the_same_job_takes_the_next_one(folder: Path, home: Path) -> None:
    told = run(folder, MAX_EPOCHS="1", THEN_TRY="none.ckpt")
    assert told["ended"] == [2, 4]
    with closing(plane.open(home)) as opened:
        assert len(opened.jobs()) == 1


def test_last_finds_the_checkpoints_of_a_job_that_was_killed(folder: Path) -> None:
    process = start(folder, MAX_EPOCHS="4", DIE_IN_EPOCH="2")
    _, err = process.communicate(timeout=SCRIPT_S)
    assert process.returncode == 1
    assert "JobFailed" in err.strip().splitlines()[-1]

    again = run(folder, "last", MAX_EPOCHS="4")

    assert (again["began"], again["ended"]) == ([2, 4], [4, 8])


@pytest.mark.parametrize("sleeper", ["nobody", "0", "1"])
def test_ctrl_c_brings_the_exception_checkpoint_home_and_ends_as_lightning_does(folder: Path, home: Path, sleeper: str) -> None:
    process = start(folder, MAX_EPOCHS="100000", STOP_HERE="1", SLEEPER=sleeper)
    assert process.stdout is not None
    assert "STEPPING" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=SCRIPT_S)

    assert process.returncode == 1
    assert "stopping the job" in err
    assert out.splitlines()[-1] == "HOOK KeyboardInterrupt"
    assert [path.name for path in (folder / "exception").iterdir()] == ["on_exception.ckpt"]
    wait_for(lambda: not of_home(home), within=10, what="the end of the job's processes")
