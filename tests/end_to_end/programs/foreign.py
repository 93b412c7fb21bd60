"""A fit with a checkpoint and a log, that tells what it sees of launchers, for shells in which another one left its words."""

import json
import os

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, TensorDataset

import gpulayer as gl


class Net(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Linear(4, 1)

    def on_train_start(self) -> None:
        seen = {name: os.environ.get(name) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "SLURM_NTASKS", "SLURM_JOB_ID")}
        print("SEEN", json.dumps(seen), flush=True)

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        loss = self.net(batch[0]).pow(2).mean()
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.001)


if __name__ == "__main__":
    checkpoint = ModelCheckpoint()
    trainer = gl.Trainer(
        accelerator="gpulayer",
        devices=2,
        max_epochs=1,
        callbacks=[checkpoint],
        logger=CSVLogger("."),
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Net(), DataLoader(TensorDataset(torch.rand(16, 4)), batch_size=4))
    told = [trainer.global_step, trainer.is_global_zero, trainer.world_size, os.path.isfile(checkpoint.best_model_path)]
    print("CALLER", json.dumps([*told, os.environ["RANK"]]))
