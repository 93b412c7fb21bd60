"""Strategies, precisions and plugins reach the job as the user gave them, and whole weights come back from all of them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from .processes import SCRIPT_S
from .scripts import run_script

pytestmark = pytest.mark.timeout(4 * SCRIPT_S)
PROGRAM = Path(__file__).parent / "programs" / "strategies.py"
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
PARTS = [".metadata", "__0_0.distcp", "__1_0.distcp", "meta.pt"]


def run(folder: Path, *argv: str, accelerator: str) -> tuple[dict[str, Any], str]:
    folder.mkdir(parents=True)
    shutil.copy(PROGRAM, folder)
    done = run_script(folder, *argv, "strategies.py", ACCELERATOR=accelerator, OUTCOME=str(folder / "outcome.pt"))
    assert done.returncode == 0, done.stdout + done.stderr
    return torch.load(folder / "outcome.pt", weights_only=True), done.stderr


def test_each_trains_as_under_torchrun_and_whole_weights_and_sharded_checkpoints_come_back(tmp_path: Path) -> None:
    expected, _ = run(tmp_path / "torchrun" / "caller", *TORCHRUN, accelerator="cpu")

    got, said = run(tmp_path / "caller", accelerator="gpulayer")

    resumed = got.pop("resumed")
    assert got.keys() == expected.keys()
    for name, there in expected.items():
        here = got[name]
        assert {what: here[what] for what in ("steps", "metrics")} == {what: there[what] for what in ("steps", "metrics")}, name
        assert here.get("tests") == there.get("tests"), name
        assert list(here["state"]) == list(there["state"]), name
        for key, value in there["state"].items():
            assert torch.equal(here["state"][key], value), (name, key)
        assert here["moments"] == [list(value.shape) for key, value in here["state"].items() if key in here["trained"]], name
    assert "can't be brought back" not in said, said
    for name in ("sharded", "fsdp", "fsdp_flat"):
        assert sorted(path.name for path in (tmp_path / "caller" / "kept" / name / "best.ckpt").iterdir()) == PARTS
    assert torch.load(tmp_path / "caller" / "kept" / "io" / "best.ckpt", weights_only=True)["own"] == "io"
    assert resumed["steps"] == got["sharded"]["steps"]
    for key, value in got["sharded"]["state"].items():
        assert key == "net.0.bias" or torch.equal(resumed["state"][key], value), key
