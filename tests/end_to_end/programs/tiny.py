"""The smallest fit: two batches, one epoch; JOB holds job options as JSON."""

import json
import os

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader, TensorDataset

import gpulayer as gl


class Tiny(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Linear(4, 1)

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        return self.net(batch[0]).pow(2).mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.001)


if __name__ == "__main__":
    trainer = gl.Trainer(
        accelerator="gpulayer",
        devices=2,
        num_nodes=int(os.environ.get("NODES", "1")),
        job=json.loads(os.environ.get("JOB", "{}")),
        max_epochs=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Tiny(), DataLoader(TensorDataset(torch.rand(16, 4)), batch_size=4))
    print("FITTED", trainer.global_step)
