"""One bar, where the person is: the ranks of a fit draw none into the log."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from gpulayer import plane as planes
from tests.end_to_end.processes import SCRIPT_S

pytestmark = pytest.mark.timeout(2 * SCRIPT_S)
SCRIPT = """
import lightning.pytorch as pl, torch
from lightning.pytorch.demos.boring_classes import BoringModel
import gpulayer as gl

class Model(BoringModel):
    def on_train_start(self):
        print("begins", self.global_rank, flush=True)

if __name__ == "__main__":
    quiet = {"logger": False, "enable_checkpointing": False, "enable_model_summary": False}
    trainer = gl.Trainer(accelerator="gpulayer", devices=2, max_epochs=1, limit_train_batches=8, limit_val_batches=0, **quiet)
    trainer.fit(Model())
"""


def test_a_fit_of_two_ranks_has_one_progress_line_and_no_bar_in_its_log(tmp_path: Path, home: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    program = [sys.executable, "script.py"]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, timeout=SCRIPT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    shown = [line for line in (done.stdout + done.stderr).splitlines() if "fit epoch" in line]
    assert shown
    assert len(shown) == len(set(shown)), "each is shown by one process"
    with closing(planes.open(home)) as plane:
        lines = list(plane.lines(plane.jobs()[0].id))
    assert {line.text for line in lines} >= {"begins 0", "begins 1"}
    assert not [line for line in lines if "it/s" in line.text or "Epoch 0" in line.text]
