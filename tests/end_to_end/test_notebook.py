"""Cells of a notebook become a job, and what it left is in the notebook."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from .processes import SCRIPT_S

pytestmark = pytest.mark.timeout(3 * SCRIPT_S)

CELLS = (
    """
import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader, TensorDataset

import gpulayer as gl
!echo only here
""",
    "undefined_name",
    """
class Tiny(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(4, 1)

    def training_step(self, batch, batch_idx):
        loss = self.net(batch[0]).pow(2).mean()
        self.log("loss", loss)
        return loss

    def test_step(self, batch, batch_idx):
        self.log("bias", self.net.bias.detach().sum(), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


data = DataLoader(TensorDataset(torch.rand(16, 4)), batch_size=4)
model = Tiny()
before = model.net.weight.detach().clone()
trainer = gl.Trainer(devices=2, max_epochs=1, logger=False, enable_model_summary=False)
""",
    """
%time trainer.fit(model, data)
first = trainer.job_id
trainer.validate
""",
    "with torch.no_grad():\n    _ = model.net.bias.fill_(7.0)",
    """
(tested,) = trainer.test(model, data, verbose=False)
trainer.test(model, data, verbose=False)
import json, os
print("FACTS", json.dumps({
    "trained": not torch.equal(before, model.net.weight),
    "steps": trainer.global_step,
    "bias": tested["bias"],
    "jobs": len({first, trainer.job_id}),
    "opens": os.path.exists(trainer.checkpoint_callback.best_model_path),
    "cells": sorted(name for name in os.listdir() if name.endswith(".cells.py")),
}))
""",
)


def test_cells_are_the_script_and_a_call_in_a_later_cell_goes_on_from_the_record(tmp_path: Path) -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text.strip()) for text in CELLS])
    folder = tmp_path / "study"
    folder.mkdir()
    (folder / "pyproject.toml").touch()

    NotebookClient(notebook, timeout=SCRIPT_S, allow_errors=True, resources={"metadata": {"path": str(folder)}}).execute()

    failed = [_text(cell) for cell in notebook.cells if any(output.output_type == "error" for output in cell.outputs)]
    assert len(failed) == 1, failed
    assert "undefined_name" in failed[0]
    facts = json.loads(_text(notebook.cells[-1]).partition("FACTS ")[2].splitlines()[0])
    assert facts == {"trained": True, "steps": 2, "bias": 7.0, "jobs": 2, "opens": True, "cells": [".notebook.cells.py"]}
    (shown,) = [output.data["text/plain"] for output in notebook.cells[3].outputs if output.output_type == "display_data"]
    assert " fit epoch 1/1 batch 2/2 " in shown
    assert not list(folder.glob(".*.cells.py"))  # the kernel has ended


def _text(cell: Any) -> str:
    """What a cell printed, or raised."""
    return "".join(output.get("text") or "\n".join(output.get("traceback", ())) for output in cell.outputs)
