"""A call whose job was broken off is submitted again, and ends as if nothing had happened."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from .processes import SCRIPT_S
from .scripts import run_script

pytestmark = pytest.mark.timeout(3 * SCRIPT_S)
PROGRAM = Path(__file__).parent / "programs" / "again.py"


def run(folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    folder.mkdir()
    shutil.copy(PROGRAM, folder)
    return run_script(folder, PROGRAM.name, *argv)


def told(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def test_a_fit_whose_rank_was_killed_goes_on_from_its_newest_checkpoint_and_ends_as_an_unbroken_one(tmp_path: Path) -> None:
    whole = told(run(tmp_path / "whole", "", "0"))

    done = run(tmp_path / "broken", str(tmp_path / "died"), "2")

    found = told(done)
    assert (tmp_path / "died").exists()
    assert "SIGKILL" in done.stderr
    assert "submitted again, from gpulayer://job-" in done.stderr
    assert "(1 more time)" in done.stderr
    assert (whole.pop("version"), found.pop("version")) == (0, 1)
    assert found == whole
    versions = sorted(path.parent.name for path in (tmp_path / "broken" / "logs").rglob("metrics.csv"))
    assert versions == ["version_0", "version_1"]


def test_what_the_script_raises_itself_is_not_tried_again(tmp_path: Path) -> None:
    done = run(tmp_path / "missing", str(tmp_path / "no" / "such" / "folder"), "2")
    assert done.returncode == 1
    assert "FileNotFoundError" in done.stderr
    assert "submitted again" not in done.stderr


def test_without_a_word_a_broken_call_is_the_callers_to_try_again(tmp_path: Path) -> None:
    done = run(tmp_path / "once", str(tmp_path / "died"), "0")
    assert done.returncode == 1
    assert "JobFailed" in done.stderr
    assert "SIGKILL" in done.stderr
