"""Ranks that come apart inside of a fit, or another run that writes the same files meanwhile, by MODE."""

import os
import pathlib

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader, IterableDataset

import gpulayer as gl

MODE, RANK = os.environ["MODE"], int(os.environ.get("RANK", "0"))


class Uneven(IterableDataset):
    """Rank 1 has fewer rows."""

    def __iter__(self):
        yield from torch.ones(8 if RANK == 1 and MODE == "uneven" else 16, 4)


class Module(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Linear(4, 1)

    def on_train_start(self) -> None:
        if MODE == "rival" and RANK == 0:
            theirs = pathlib.Path(os.environ["CALLER"], "kept")
            theirs.mkdir()
            (theirs / "best.ckpt").write_text("another run's")

    def training_step(self, batch: torch.Tensor, index: int) -> torch.Tensor:
        if MODE == "exit" and RANK == 1 and index == 1:
            os._exit(0)
        return self.net(batch).pow(2).mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.001)


quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
saving = {}
if MODE == "rival":
    checkpoint = pl.callbacks.ModelCheckpoint("kept", filename="best")
    saving = {"enable_checkpointing": True, "callbacks": [checkpoint]}
trainer = gl.Trainer(accelerator="gpulayer", devices=2, max_epochs=1, job={"straggler_grace_s": 3}, **{**quiet, **saving})
if MODE == "elsewhere":
    print("READ", pathlib.Path("data/rows.csv").read_text(), flush=True)
try:
    trainer.fit(Module(), DataLoader(Uneven(), batch_size=4))
except gl.JobFailed as error:
    print("FAILED", error.code, error, flush=True)
else:
    print("FITTED", trainer.global_step, flush=True)
    if MODE == "rival":
        print("BEST", torch.load(checkpoint.best_model_path, weights_only=False)["global_step"], flush=True)
