"""Scripts of hydra: a run is a job that writes into the caller's output folder, a sweep is several."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from .processes import SCRIPT_S
from .scripts import run_script

pytestmark = pytest.mark.timeout(3 * SCRIPT_S)
APP = Path(__file__).parent / "programs" / "hydra_app"


def run(folder: Path, *words: str) -> tuple[dict[str, dict[str, Any]], str]:
    """Run the program; what each run wrote, by its folder, and what was said."""
    shutil.copytree(APP, folder)
    (folder / "pyproject.toml").touch()
    done = run_script(folder, "train.py", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    found = {str(path.parent.relative_to(folder)): json.loads(path.read_text()) for path in folder.rglob("facts.json")}
    return dict(sorted(found.items())), done.stderr


def test_a_run_is_one_job_that_writes_into_the_folder_that_hydra_gave_the_caller(tmp_path: Path) -> None:
    found, said = run(tmp_path / "a b", "lr=0.25", "hydra.job.chdir=True")
    ((place, facts),) = found.items()
    assert place.startswith("outputs/")
    assert facts["checkpoint"].startswith("kept/")
    assert (facts["lr"], facts["steps"], facts["one job"], facts["opens"]) == (0.25, 2, True, True)
    here = tmp_path / "a b" / place
    assert "lr=0.25" in (here / ".hydra" / "overrides.yaml").read_text()
    assert "is kept" not in said
    assert [path.name for path in (tmp_path / "a b").iterdir() if path.name.startswith("outputs")] == ["outputs"]
    assert len(list((tmp_path / "a b" / "outputs").glob("*/*"))) == 1


def test_each_run_of_a_sweep_is_a_job_of_its_own(tmp_path: Path) -> None:
    found, _ = run(tmp_path / "sweep", "-m", "lr=0.1,0.2", "hydra.sweep.dir=runs")
    assert list(found) == ["runs/0", "runs/1"]
    assert [facts["lr"] for facts in found.values()] == [0.1, 0.2]
    assert all(facts["one job"] and facts["opens"] and facts["steps"] == 2 for facts in found.values())
    assert len({facts["job"] for facts in found.values()}) == 2
