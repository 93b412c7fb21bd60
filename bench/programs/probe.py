"""Trains a small regression and prints one JSON line of times, under torchrun and under GPUlayer alike.

PROBE_ACCELERATOR (cpu), PROBE_NODES (1), PROBE_DEVICES (2), PROBE_STEPS (1), PROBE_WIDTH (256).
"""

import json
import os
import time

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader, TensorDataset

ACCELERATOR = os.environ.get("PROBE_ACCELERATOR", "cpu")
if ACCELERATOR == "gpulayer":
    import gpulayer  # noqa: F401  (teaches Lightning the accelerator's name)
STEPS, WIDTH = int(os.environ.get("PROBE_STEPS", "1")), int(os.environ.get("PROBE_WIDTH", "256"))


class Clock(pl.Callback):
    """When each step began, in seconds since the epoch."""

    def __init__(self) -> None:
        self.begins: list[float] = []

    def on_train_batch_start(self, *_: object) -> None:
        self.begins.append(time.time())


class Regression(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, 1))

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], _: int) -> torch.Tensor:
        return torch.nn.functional.mse_loss(self.net(batch[0]), batch[1])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.01)


if __name__ == "__main__":
    pl.seed_everything(0)
    clock = Clock()
    trainer = pl.Trainer(
        accelerator=ACCELERATOR,
        num_nodes=int(os.environ.get("PROBE_NODES", "1")),
        devices=int(os.environ.get("LOCAL_WORLD_SIZE") or os.environ.get("PROBE_DEVICES", "2")),
        max_steps=STEPS,
        max_epochs=-1,
        callbacks=[clock],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    rows = DataLoader(TensorDataset(torch.rand(2048, WIDTH), torch.rand(2048, 1)), batch_size=32)
    called = time.time()
    trainer.fit(Regression(), rows)
    returned = time.time()
    if trainer.is_global_zero:
        print("PROBE " + json.dumps({"called": called, "returned": returned, "begins": clock.begins}), flush=True)
