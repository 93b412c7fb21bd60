"""A fit that goes on until somebody ends it; with FORK=1 every rank leaves a child in a session of its own."""

import os
import subprocess
import sys

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader, TensorDataset

import gpulayer as gl


class Endless(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Linear(4, 1)

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        if os.environ.get("FORK") == "1" and self.global_step == 2:
            subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], start_new_session=True)
        if self.global_step == 5 and self.global_rank == 0:
            print("STEPPING", flush=True)
        return self.net(batch[0]).pow(2).mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.001)


if __name__ == "__main__":
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = gl.Trainer(
        accelerator="gpulayer", num_nodes=int(os.environ.get("NODES", "2")), devices=2, max_epochs=100_000, **quiet
    )
    data = DataLoader(TensorDataset(torch.rand(16, 4)), batch_size=4)
    try:
        trainer.fit(Endless(), data)
    except gl.JobFailed as error:
        print("FAILED", error.code, flush=True)
        trainer = gl.Trainer(accelerator="gpulayer", num_nodes=1, devices=2, max_epochs=1, **quiet)
        trainer.fit(Endless(), data)
        print("AGAIN", trainer.current_epoch, trainer.global_step, flush=True)
