"""A program of LightningCLI: its subcommands and configuration files, from another folder than its own."""

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
APP = Path(__file__).parent / "programs" / "cli_app"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder beside the program's."""
    shutil.copytree(APP, tmp_path / "app")
    (tmp_path / "app" / "pyproject.toml").touch()
    runs = tmp_path / "app" / "runs"
    runs.mkdir()
    return runs


def told(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_fit_and_test_save_their_configuration_once_as_they_would_here(runs: Path) -> None:
    strategy = ("--trainer.strategy.class_path=gpulayer.GPULayerStrategy", "--trainer.strategy.init_args.strategy=ddp")
    fit = told(run_script(runs, "../app.py", "fit", "--config", "../configs/tiny.yaml", "--model.lr=0.5", *strategy))
    assert (fit["steps"], fit["lr"], fit["width"], fit["world"]) == (2, 0.5, 3, 2)
    saved = runs / "lightning_logs" / "version_0" / "config.yaml"
    assert "lr: 0.5" in saved.read_text()
    (checkpoint,) = (runs / "lightning_logs").rglob("*.ckpt")

    asked = ("--trainer.accelerator=gpulayer", "--trainer.strategy=auto", "--trainer.devices=1", "--trainer.logger=false")
    words = ("../app.py", "test", "--config", "../configs/tiny.yaml", f"--ckpt_path={checkpoint.relative_to(runs)}", *asked)
    test = told(run_script(runs, *words))
    assert (test["loss"] >= 0, test["world"]) == (True, 1)
    assert "devices: '1'" in (runs / "config.yaml").read_text()

    again = run_script(runs, *words)
    assert again.returncode == 1
    assert "RuntimeError: SaveConfigCallback expected" in again.stderr
    assert sorted(path.name for path in runs.iterdir()) == ["config.yaml", "lightning_logs"]
