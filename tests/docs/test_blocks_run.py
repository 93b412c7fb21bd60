"""Every Python block of the README and the pages runs, with the model and data that its page takes for given."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs.test_pages import BLOCK, PAGES, ROOT, name

pytestmark = pytest.mark.timeout(400)

GIVEN = """
import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader, TensorDataset

import gpulayer as gl


class Model(pl.LightningModule):
    def __init__(self, breaks=False):
        super().__init__()
        self.layer, self.breaks = torch.nn.Linear(2, 1), breaks

    def training_step(self, batch, batch_idx):
        if self.breaks:
            raise ValueError("a bad batch")
        return self.layer(batch[0]).mean()

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.layer(batch[0]).mean(), sync_dist=True)

    test_step = validation_step

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Data(pl.LightningDataModule):
    def train_dataloader(self):
        return DataLoader(TensorDataset(torch.rand(8, 2)), batch_size=2)

    val_dataloader = test_dataloader = train_dataloader


pl.seed_everything(1)
model, data, datamodule = Model(), Data(), Data()
"""
SMALLER = {"num_nodes=2, devices=2": "num_nodes=1, devices=2", "max_epochs=100": "max_epochs=2", "max_epochs=5": "max_epochs=2"}


class Reader:
    """Someone who types the blocks of a page into files of one folder, and runs them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, code: str, *, given: str = GIVEN, then: str = "", **words: str) -> str:
        """Run a block, with ``words`` in the place of what the page only stands for; returns what it printed."""
        for page, ours in {**SMALLER, **words}.items():
            code = code.replace(page, ours)
        (self.folder / "script.py").write_text(f"{given}\n{code}\n{then}")
        command = [sys.executable, "script.py"]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=170, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def command(self, *words: str) -> str:
        """Run one of our commands."""
        command = [sys.executable, "-m", "gpulayer", *words]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=170, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def readme(reader: Reader, blocks: list[str]) -> None:
    first, example = blocks
    reader.run(first, then="assert open(trainer.checkpoint_callback.best_model_path, 'rb').read(1)")
    said = reader.run(example, given="", **{"max_epochs=2": "max_epochs=30"})
    weight, bias = map(float, said.split()[-2:])
    assert abs(weight - 3) < 0.2
    assert abs(bias + 1) < 0.2


def tutorial(reader: Reader, blocks: list[str]) -> None:
    opening, more, failing = blocks
    reader.run(more, then="trainer.fit(model, data)")
    (job,) = reader.command("jobs", "ls", "-q").split()
    reader.run(opening, given="", then="assert checkpoint['global_step'] > 0", **{"gpulayer://ID/": f"gpulayer://{job}/"})
    broken = f"{GIVEN}\nmodel, trainer = Model(breaks=True), gl.Trainer(accelerator='gpulayer', devices=2, max_epochs=1)"
    said = reader.run(failing, given=broken)
    assert "a bad batch" in said
    assert "On rank" in said.partition("a bad batch")[2]


def environments(reader: Reader, blocks: list[str]) -> None:
    (only,) = blocks
    reader.run(only, then="assert trainer.strategy.options.requirements == command.requirements + ('timm',)")


MAKES_FILES = """
import os, torch, gpulayer as gl
os.makedirs("made")
os.chdir("made")
torch.save({"weight": torch.ones(1)}, "state.pt")
open("notes.txt", "w").write("well done")
with gl.Client() as client:
    print(client.submit(gl.CommandJob(command=("cp", "-r", os.getcwd() + "/.", "."))).wait().id)
"""


def files(reader: Reader, blocks: list[str]) -> None:
    (only,) = blocks
    job = reader.run(MAKES_FILES, given="").split()[-1]
    said = reader.run(only, given="", **{"job-0123456789ab": job}).splitlines()
    assert said[0] == "['weight']"
    assert f"{job}/node0/state.pt" in said[1]
    assert said[2] == "b'well '"


def fetch(reader: Reader, blocks: list[str]) -> None:
    (only,) = blocks
    reader.run(only, then="assert open(trainer.checkpoint_callback.best_model_path, 'rb').read(1)")


def leave(reader: Reader, blocks: list[str]) -> None:
    leaving, coming = blocks
    reader.command("up")
    try:
        job = reader.run(leaving, then="assert model.layer.weight.grad is None").split()[-1]
        reader.run(coming, then="assert trainer.current_epoch == 2", **{"job-0123456789ab": job})
    finally:
        reader.command("down", "--kill")


def resume(reader: Reader, blocks: list[str]) -> None:
    again, goes_on = blocks
    reader.run(again, then="trainer.fit(model, data)", **{"devices=2": "devices=1, max_epochs=1"})
    reader.run(goes_on, then="assert goes_on.inputs[0].path == 'state.npz'")


def python(reader: Reader, blocks: list[str]) -> None:
    functions, many, scripts, any_job = blocks
    said = reader.run(functions, given="")
    assert [line for line in said.splitlines() if line[:1].isdigit()] == ["2.0"]
    assert "division by zero" in said
    assert "[1.0, None, 3.0]\n{1: ValueError(-1)}" in reader.run(many, given="")
    (reader.folder / "train.py").write_text("import sys; open('made.txt', 'w').write(sys.argv[2])")
    assert reader.run(scripts, given="").splitlines()[-1] == "['node0/made.txt', 'node1/made.txt']"
    said = reader.run(any_job, given="")
    assert said.startswith("hello\nsucceeded ")
    assert (reader.folder / "now.txt").read_text()


READERS: dict[str, Callable[[Reader, list[str]], None]] = {
    "README.md": readme,
    "docs/tutorial.md": tutorial,
    "docs/how-to/environments.md": environments,
    "docs/how-to/fetch.md": fetch,
    "docs/how-to/files.md": files,
    "docs/how-to/leave.md": leave,
    "docs/how-to/python.md": python,
    "docs/how-to/resume.md": resume,
}


def blocks_of(page: str) -> list[str]:
    return BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", READERS)
def test_the_blocks_of_a_page_run(page: str, tmp_path: Path) -> None:
    READERS[page](Reader(tmp_path), blocks_of(page))


def test_no_page_has_blocks_that_nobody_runs() -> None:
    assert {name(page) for page in PAGES if blocks_of(name(page))} == set(READERS)
