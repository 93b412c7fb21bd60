"""The calls of one script, between the caller and its jobs."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from .processes import SCRIPT_S
from .scripts import run_script as run

pytestmark = pytest.mark.timeout(3 * SCRIPT_S)
PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "caller"
    folder.mkdir()
    shutil.copy(PROGRAMS / "several.py", folder)
    return folder


def told(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def test_calls_share_a_job_the_callers_edits_count_and_another_shape_is_a_job_of_its_own(folder: Path) -> None:
    done = run(folder, "several.py", "edited")
    (facts,) = told(done)
    assert facts["bias"] == [7.0, 7.0]
    assert facts["steps"] == 2
    assert len(set(facts["jobs"])) == 2
    assert done.stderr.count("gpulayer: job-") == 2
    assert "the caller's is sent" in done.stderr
    assert done.stdout.count("inside of the call on rank 0") == 1
    assert "rank 1" not in done.stdout


def test_what_the_script_writes_between_its_calls_is_the_callers_own(folder: Path) -> None:
    (facts,) = told(run(folder, "several.py", "writing"))
    assert facts["notes"] == [facts["pid"]] * 2
    assert facts["files"] == ["after.ckpt", "empty", "inside.txt", "notes.txt", "several.py", "theirs.txt"]
    assert facts["inner"] == ["inner"]


def test_after_the_idle_limit_another_job_goes_on_from_the_record(folder: Path) -> None:
    (facts,) = told(run(folder, "several.py", "idle"))
    assert facts["kept"]
    assert len(set(facts["jobs"])) == 2
    assert facts["steps"] == 2


def test_a_checkpoint_that_a_later_job_deletes_goes_at_the_caller_and_a_link_is_one(folder: Path) -> None:
    (facts,) = told(run(folder, "several.py", "keeping"))
    assert facts["first"] == ["epoch=0-step=2.ckpt", "last.ckpt"]
    assert facts["then"] == ["epoch=1-step=4.ckpt", "last.ckpt"]
    assert facts["link"] == "epoch=1-step=4.ckpt"
    assert facts["last"] == str(folder / "kept" / "last.ckpt")


def test_the_users_own_error_arrives_once_with_its_rank_and_a_second_fit_works(folder: Path) -> None:
    failed, second = told(run(folder, "several.py", "failing"))
    assert failed["args"] == ["row", 0]
    assert failed["status"] == "interrupted"
    assert failed["hooked"] == ["BadRow"]
    assert "On rank 1 of the job" in failed["notes"][-1]
    assert second["steps"] == 2
    assert len(set(second["jobs"])) == 2


def test_ranks_that_make_other_calls_are_named_before_anything_computes(folder: Path) -> None:
    done = run(folder, "several.py", "diverging")
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert "CallsDiverged" in last
    assert "is_global_zero" in last
    assert "inside of the call" not in done.stdout


def test_a_module_is_the_script_as_well_and_the_caller_keeps_its_environment(folder: Path) -> None:
    (folder / "pkg").mkdir()
    (folder / "pkg" / "__init__.py").touch()
    (folder / "several.py").rename(folder / "pkg" / "several.py")
    (facts,) = told(run(folder, "-m", "pkg.several", "plain", "", "--x"))
    assert facts["argv"][1:] == ["plain", "", "--x"]
    assert facts["steps"] == 2
    assert facts["environment"]
    assert facts["cwd"] == str(folder)
