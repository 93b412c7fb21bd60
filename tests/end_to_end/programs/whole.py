"""A fit with validation, checkpoints and a test; what came of it is written to the file that OUTCOME names."""

import os

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, TensorDataset

import gpulayer  # noqa: F401


class Net(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.1), torch.nn.Linear(8, 1))
        self.register_buffer("seen", torch.zeros(1))

    def _loss(self, batch: list[torch.Tensor]) -> torch.Tensor:
        return (self.net(batch[0]) - batch[1]).pow(2).mean()

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        self.seen += 1
        loss = self._loss(batch)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch: list[torch.Tensor], batch_idx: int) -> None:
        self.log("val_loss", self._loss(batch), sync_dist=True)

    def test_step(self, batch: list[torch.Tensor], batch_idx: int) -> None:
        self.log("test_loss", self._loss(batch), sync_dist=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.01)


def loader(rows: int) -> DataLoader[list[torch.Tensor]]:
    made = torch.Generator().manual_seed(rows)
    x = torch.randn(rows, 4, generator=made)
    return DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=4, shuffle=rows == 64)


if __name__ == "__main__":
    pl.seed_everything(3)
    model = Net()
    checkpoint = ModelCheckpoint(monitor="val_loss", save_last=True)
    trainer = pl.Trainer(
        accelerator=os.environ["ACCELERATOR"],
        num_nodes=int(os.environ.get("NODES", "1")),
        devices=int(os.environ["DEVICES"]),
        max_epochs=3,
        callbacks=[checkpoint, EarlyStopping("val_loss", patience=5)],
        logger=CSVLogger("."),
        log_every_n_steps=2,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, loader(64), loader(16))
    fitted = {name: value.clone() for name, value in model.state_dict().items()}
    (tested,) = trainer.test(model, loader(12), ckpt_path="best", verbose=False)
    metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
    log_dir = trainer.log_dir
    if trainer.is_global_zero:
        again = Net.load_from_checkpoint(checkpoint.best_model_path)
        outcome = {
            "fitted": fitted,
            "tested": model.state_dict(),
            "best": again.state_dict(),
            "metrics": metrics,
            "test": tested,
            "counts": [trainer.current_epoch, trainer.global_step],
            "score": float(checkpoint.best_model_score),
            "paths": [os.path.relpath(path) for path in (log_dir, checkpoint.best_model_path, checkpoint.last_model_path)],
            "draw": torch.rand(1),
        }
        torch.save(outcome, os.environ["OUTCOME"])
    # Bare torchrun aborts now and then when gloo is left to the interpreter's end; a job's runtime does this by itself.
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
