"""A program of LightningCLI; prints what its command left, as JSON."""

import json

import lightning.pytorch as pl
import torch
from lightning.pytorch.cli import LightningCLI
from torch.utils.data import DataLoader, TensorDataset

import gpulayer  # noqa: F401  # makes the name "gpulayer" known


class Tiny(pl.LightningModule):
    def __init__(self, width: int = 4, lr: float = 0.001) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.net = torch.nn.Linear(width, 1)
        self.lr = lr

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        return self.net(batch[0]).pow(2).mean()

    def test_step(self, batch: list[torch.Tensor], batch_idx: int) -> None:
        self.log("loss", self.net(batch[0]).pow(2).mean(), sync_dist=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=self.lr)


class Rows(pl.LightningDataModule):
    def __init__(self, rows: int = 16, width: int = 4) -> None:
        super().__init__()
        self.rows, self.width = rows, width

    def train_dataloader(self) -> DataLoader:
        return DataLoader(TensorDataset(torch.rand(self.rows, self.width)), batch_size=4)

    test_dataloader = train_dataloader


cli = LightningCLI(Tiny, Rows)
print(
    json.dumps(
        {
            "steps": cli.trainer.global_step,
            "loss": float(cli.trainer.callback_metrics.get("loss", -1)),
            "lr": cli.model.lr,
            "width": cli.model.net.in_features,
            "world": cli.trainer.world_size,
        }
    )
)
