"""The network of a project whose checks train it."""

import os

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader, TensorDataset

import gpulayer as gl


class Tiny(pl.LightningModule):
    def __init__(self, fails: bool = False) -> None:
        super().__init__()
        self.net = torch.nn.Linear(4, 1)
        self.fails = fails
        self.seen: str | None = None

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        if self.fails:
            raise ValueError("no luck")
        return self.net(batch[0]).pow(2).mean()

    def test_step(self, batch: list[torch.Tensor], batch_idx: int) -> None:
        self.log("loss", self.net(batch[0]).pow(2).mean(), sync_dist=True)

    def on_train_end(self) -> None:
        self.seen = os.environ.get("PYTEST_CURRENT_TEST")
        print(f"inside of the call on rank {self.global_rank}")

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.001)


def rows() -> DataLoader:
    return DataLoader(TensorDataset(torch.rand(16, 4)), batch_size=4)


def trainer(folder: os.PathLike[str], **given: object) -> pl.Trainer:
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    return gl.Trainer(devices=2, default_root_dir=folder, **{"max_epochs": 1, **quiet, **given})
