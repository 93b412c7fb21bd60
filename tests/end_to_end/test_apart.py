"""Ranks that come apart, a caller who stands elsewhere than its source, and another run in the same folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .processes import SCRIPT_S

pytestmark = pytest.mark.timeout(3 * SCRIPT_S)

PROGRAM = Path(__file__).parent / "programs" / "apart.py"


def run(mode: str, cwd: Path) -> str:
    done = subprocess.run(
        [sys.executable, str(PROGRAM)],
        cwd=cwd,
        env={**os.environ, "MODE": mode, "CALLER": str(cwd), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=SCRIPT_S,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_rank_that_waits_in_vain_for_one_with_fewer_batches_fails_the_call(tmp_path: Path) -> None:
    said = run("uneven", tmp_path)

    assert "FAILED straggler" in said
    assert "after rank 1 had finished it" in said


def test_a_rank_that_breaks_off_is_named_rather_than_the_peer_who_lost_it(tmp_path: Path) -> None:
    said = run("exit", tmp_path)

    assert "FAILED job_failed" in said
    assert "Rank 1" in said
    assert "exited with code 0" in said


def test_files_beside_a_caller_who_stands_outside_of_its_source_are_read_as_at_home(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "rows.csv").write_text("1,2,3")

    assert "FITTED 4" in run("elsewhere", tmp_path)


def test_a_checkpoint_that_came_home_under_another_name_is_found_by_its_callback(tmp_path: Path) -> None:
    said = run("rival", tmp_path)

    assert "BEST 4" in said
    assert (tmp_path / "kept" / "best.ckpt").read_text() == "another run's"
