"""A fit of three epochs whose rank dies once in the last of them, if the file that is named is not there yet."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, TensorDataset

import gpulayer as gl


class Net(pl.LightningModule):
    def __init__(self, deadly: Path) -> None:
        super().__init__()
        self.net = torch.nn.Linear(4, 1)
        self.deadly = str(deadly)

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        loss = (self.net(batch[0]) - batch[0].sum(1, keepdim=True)).pow(2).mean()
        self.log("loss", loss, on_step=False, on_epoch=True, sync_dist=True)
        return loss

    def on_train_batch_end(self, *_: object) -> None:
        if self.current_epoch == 2 and self.global_rank == 1 and self.deadly and not os.path.exists(self.deadly):
            Path(self.deadly).touch()
            os.kill(os.getpid(), signal.SIGKILL)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.05)


def main(deadly: str, resubmit: int, job_id: str = "") -> None:
    pl.seed_everything(7)
    kept = ModelCheckpoint("kept", monitor="loss", save_last=True)
    patience = EarlyStopping("loss", patience=50)
    trainer = gl.Trainer(
        devices=2,
        max_epochs=4,
        logger=CSVLogger("logs"),
        callbacks=[kept, patience],
        enable_progress_bar=False,
        enable_model_summary=False,
        job=gl.JobOptions(resubmit=resubmit),
    )
    model = Net(Path(deadly))
    rows = torch.arange(128.0).reshape(32, 4) / 128
    loader = DataLoader(TensorDataset(rows), batch_size=4, shuffle=True)
    if job_id:
        gl.attach(job_id, trainer, model, train_dataloaders=loader)
    else:
        trainer.fit(model, loader)
    facts = {
        "weights": {name: value.tolist() for name, value in model.state_dict().items()},
        "counts": [trainer.current_epoch, trainer.global_step],
        "loss": float(trainer.callback_metrics["loss"]),
        "stopping": [patience.wait_count, float(patience.best_score)],
        "best": os.path.relpath(kept.best_model_path),
        "last": len(torch.load(kept.last_model_path, weights_only=True)["state_dict"]),
        "version": trainer.logger.version,
    }
    print(json.dumps(facts))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
