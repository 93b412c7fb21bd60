"""Networks, data and Trainers for the scripts whose object graphs are compared."""

from __future__ import annotations

import os
from typing import Any

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics import MeanMetric


class Net(pl.LightningModule):
    """A small network that keeps notes of its own while it is trained."""

    def __init__(self, lr: float = 0.01, batch_size: int = 4) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.example_input_array = torch.zeros(2, 4)
        self.backbone = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8))
        self.head = torch.nn.Sequential(torch.nn.Dropout(0.1), torch.nn.Linear(8, 1))
        self.register_buffer("seen", torch.zeros(1), persistent=False)
        self.error = MeanMetric()
        self.outputs: list[torch.Tensor] = []
        self.notes: dict[str, Any] = {}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.backbone(x))

    def loss(self, batch: list[torch.Tensor]) -> torch.Tensor:
        return (self(batch[0]) - batch[1]).pow(2).mean()

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        self.seen += 1
        loss = self.loss(batch)
        self.outputs.append(loss.detach())
        self.log("train_loss", loss, on_step=True, on_epoch=True, prog_bar=True)
        return loss

    def on_train_epoch_end(self) -> None:
        self.notes[f"epoch {self.current_epoch}"] = torch.stack(self.outputs).mean()
        self.outputs.clear()

    def validation_step(self, batch: list[torch.Tensor], batch_idx: int, dataloader_idx: int = 0) -> None:
        loss = self.loss(batch)
        self.error(loss)
        name = f"val_loss/{dataloader_idx}" if dataloader_idx else "val_loss"
        self.log(name, loss, sync_dist=True, add_dataloader_idx=False, prog_bar=True)
        self.log(f"error/{dataloader_idx}", self.error, add_dataloader_idx=False)

    def test_step(self, batch: list[torch.Tensor], batch_idx: int) -> dict[str, torch.Tensor]:
        loss = self.loss(batch)
        self.log("test_loss", loss, sync_dist=True)
        return {"loss": loss}

    def predict_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        return self(batch[0])

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.Adam(self.parameters(), lr=self.hparams["lr"])
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)}


def rows(count: int, batch_size: int = 4, shuffle: bool = False) -> DataLoader[Any]:
    made = torch.Generator().manual_seed(count)
    x = torch.randn(count, 4, generator=made)
    return DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=batch_size, shuffle=shuffle)


def trainer(**words: Any) -> pl.Trainer:
    """Make a Trainer of the devices that ACCELERATOR and DEVICES name."""
    accelerator = os.environ["ACCELERATOR"]
    return pl.Trainer(
        accelerator=accelerator, devices=int(os.environ["DEVICES"]), num_nodes=int(os.environ["NODES"]), strategy="ddp", **words
    )


def part() -> None:
    """Leave the process group: bare torchrun aborts now and then when gloo is left to the interpreter's end."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
