"""What of a call comes home now, and the rest on demand."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from .processes import SCRIPT_S
from .scripts import run_script

pytestmark = pytest.mark.timeout(3 * SCRIPT_S)
PROGRAM = Path(__file__).parent / "programs" / "fetching.py"
ALL = ["epoch=0.ckpt", "epoch=1.ckpt", "last.ckpt"]


def bias_in(path: Path) -> float:
    return float(torch.load(path, weights_only=True)["state_dict"]["net.bias"].sum())


def test_what_stays_with_the_job_opens_there_is_gone_on_from_and_comes_on_demand(tmp_path: Path) -> None:
    shutil.copy(PROGRAM, tmp_path)
    done = run_script(tmp_path, "fetching.py")
    assert done.returncode == 0, done.stdout + done.stderr
    told: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    little, last, over = told
    paths = {name: str(tmp_path / "little" / name) for name in ALL}
    biases = [bias_in(tmp_path / "little" / name) for name in ALL]

    # Only the metrics: the loss, the steps and the logger's rows, but neither weights nor checkpoints.
    assert "CallRefused" in little["nothing"]
    assert (little["here"], little["rows"], little["step"], little["epochs"]) == ([], True, 8, 0)
    assert all(said.startswith("StaleModule") and "gpulayer.fetch(trainer)" in said for said in little["touched"])
    assert little["best"].startswith("gpulayer://")
    assert little["opens"] == [biases[0], biases[2]]
    # Another job answers the next calls from the record, and has the first one's checkpoints.
    assert little["jobs"]
    assert little["tested"] == [pytest.approx(biases[2]), pytest.approx(biases[0]), pytest.approx(biases[2])]
    assert "the caller's is sent" not in done.stderr
    # On demand all is as if it had come at once.
    fetched = little["fetched"]
    assert (fetched["here"], fetched["epochs"], little["steps of optimizer"]) == (ALL, 2, 8)
    assert fetched["bias"] == biases[2]
    assert (fetched["best"], fetched["last"], fetched["scored"]) == (
        paths["epoch=0.ckpt"],
        paths["last.ckpt"],
        [paths["epoch=0.ckpt"], paths["epoch=1.ckpt"]],
    )

    # Only the last, and over the limit only the best: the weights come, and it is no other job that fetches otherwise.
    assert (last["here"], over["here"]) == (["last.ckpt"], ["epoch=0.ckpt"])
    assert last["last"] == str(tmp_path / "last" / "last.ckpt")
    assert over["best"] == str(tmp_path / "over" / "epoch=0.ckpt")
    assert last["best"].startswith("gpulayer://")
    assert over["last"].startswith("gpulayer://")
    assert last["job"] == over["job"]
    assert "over fetch_limit (3 kB): fetched only the best checkpoint; gpulayer.fetch(trainer) brings the rest." in done.stderr
    for each in (last, over):
        assert (each["rows"], each["loss"], each["bias"]) == (True, little["loss"], biases[2])
        assert each["tested"] == pytest.approx(biases[0])
        assert (each["then"]["here"], each["then"]["step"]) == ([*ALL[:2], "epoch=2.ckpt", "last.ckpt"], 12)
        assert not any(path.startswith("gpulayer://") for path in each["then"]["scored"])
