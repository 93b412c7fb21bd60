"""Train a small CNN on scikit-learn's handwritten digits, keep the best checkpoint, and test it.

python recipes/digits.py                                     as a job on 2 local workers x 2 processes
python recipes/digits.py --num-nodes 1 --devices 4           another shape of the same job
torchrun --nproc-per-node 4 recipes/digits.py --accelerator cpu --num-nodes 1 --devices 4      without GPUlayer
python recipes/digits.py --ckpt-path last --max-epochs 20    go on where the last run stopped
"""

from __future__ import annotations

import argparse
import warnings

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics.classification import MulticlassAccuracy

import gpulayer

Batch = tuple[Tensor, Tensor]


class Digits(pl.LightningDataModule):
    """1797 images of 8x8 pixels, dealt the same way on every rank: 1197 to train, 300 to validate, 300 to test."""

    def __init__(self, batch_size: int = 32, seed: int = 1) -> None:
        super().__init__()
        self.batch_size = batch_size
        self.seed = seed

    def setup(self, stage: str) -> None:
        images, labels = load_digits(return_X_y=True)
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(self.seed))
        x = torch.tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8)[order] / 16
        y = torch.tensor(labels)[order]
        self.train = TensorDataset(x[:-600], y[:-600])
        self.val = TensorDataset(x[-600:-300], y[-600:-300])
        self.held_out = TensorDataset(x[-300:], y[-300:])

    def train_dataloader(self) -> DataLoader[Batch]:
        return DataLoader(self.train, self.batch_size, shuffle=True)

    def val_dataloader(self) -> DataLoader[Batch]:
        return DataLoader(self.val, 75)

    def test_dataloader(self) -> DataLoader[Batch]:
        return DataLoader(self.held_out, 75)


class SmallCNN(pl.LightningModule):
    """Two convolutions and a linear layer."""

    def __init__(self, lr: float = 3e-3) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(32 * 4 * 4, 10),
        )
        self.loss = nn.CrossEntropyLoss()
        self.val_accuracy = MulticlassAccuracy(10, average="micro")
        self.test_accuracy = MulticlassAccuracy(10, average="micro")

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        x, y = batch
        loss: Tensor = self.loss(self.net(x), y)
        self.log("train_loss", loss, on_step=False, on_epoch=True, sync_dist=True)
        return loss

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        x, y = batch
        self.val_accuracy(self.net(x), y)
        self.log("val_accuracy", self.val_accuracy, prog_bar=True)

    def test_step(self, batch: Batch, batch_idx: int) -> None:
        x, y = batch
        self.test_accuracy(self.net(x), y)
        self.log("test_accuracy", self.test_accuracy)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=self.hparams["lr"])


def read_arguments() -> argparse.Namespace:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--accelerator", default="gpulayer", help="gpulayer, or cpu under torchrun")
    ask.add_argument("--target", default="local", choices=["local", "remote", "cloud"])
    ask.add_argument("--num-nodes", type=int, default=2)
    ask.add_argument("--devices", type=int, default=2, help="processes on each node")
    ask.add_argument("--max-epochs", type=int, default=12)
    ask.add_argument("--ckpt-path", help="a checkpoint to go on from: a path, gpulayer://JOB/last, or last")
    ask.add_argument("--show-ranks", action="store_true", help="print what every rank prints, as [rank3] ...")
    return ask.parse_args()


def make_trainer(args: argparse.Namespace) -> pl.Trainer:
    best = ModelCheckpoint(
        monitor="val_accuracy", mode="max", save_top_k=1, save_last=True, filename="{epoch}-{val_accuracy:.4f}"
    )
    settings = {
        "num_nodes": args.num_nodes,
        "devices": args.devices,
        "max_epochs": args.max_epochs,
        "callbacks": [best, EarlyStopping("val_accuracy", mode="max", patience=4)],
        "logger": CSVLogger("."),
        "log_every_n_steps": 5,
        "enable_progress_bar": args.accelerator == "gpulayer",
        "enable_model_summary": False,
        "deterministic": True,
    }
    if args.accelerator != "gpulayer":
        return pl.Trainer(accelerator=args.accelerator, **settings)
    job = gpulayer.JobOptions(name="digits", target=args.target, show_ranks=args.show_ranks)
    return gpulayer.Trainer(accelerator="gpulayer", job=job, **settings)


def main() -> None:
    args = read_arguments()
    warnings.filterwarnings("ignore", ".*does not have many workers.*")
    pl.seed_everything(7)
    model, data = SmallCNN(), Digits()
    trainer = make_trainer(args)

    trainer.fit(model, data, ckpt_path=args.ckpt_path)
    (tested,) = trainer.test(model, data, ckpt_path="best", verbose=False)

    if not trainer.is_global_zero:
        return
    checkpoint = trainer.checkpoint_callback
    assert isinstance(checkpoint, ModelCheckpoint)
    again = SmallCNN.load_from_checkpoint(checkpoint.best_model_path)
    print(f"job              {getattr(trainer, 'job_id', None)}")
    print(f"epochs, steps    {trainer.current_epoch}, {trainer.global_step}")
    print(f"val accuracy     {float(checkpoint.best_model_score):.4f}")
    print(f"test accuracy    {tested['test_accuracy']:.4f}")
    print(f"best checkpoint  {checkpoint.best_model_path}  (opens: {sum(p.numel() for p in again.parameters())} parameters)")


if __name__ == "__main__":
    main()
