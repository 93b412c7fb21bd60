"""A fit of MAX_EPOCHS epochs from the checkpoint that its argument names; prints where it began and ended, as JSON."""

import json
import os
import sys
import time

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader, TensorDataset

import gpulayer as gl


class Counting(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Linear(4, 1)
        self.began: list[int] = []

    def on_train_start(self) -> None:
        self.began += [self.current_epoch, self.global_step]

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        if os.environ.get("DIE_IN_EPOCH") == str(self.current_epoch) and batch_idx == 1:
            os.kill(os.getpid(), 9)
        if os.environ.get("STOP_HERE") and self.current_epoch == 3:
            print("STEPPING", flush=True)
            if os.environ.get("SLEEPER") == str(self.global_rank):
                time.sleep(120)
        return self.net(batch[0]).pow(2).mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


if __name__ == "__main__":
    said = pl.callbacks.LambdaCallback(on_exception=lambda *given: print("HOOK", type(given[-1]).__name__, flush=True))
    last = pl.callbacks.ModelCheckpoint(save_last=True)
    trainer = gl.Trainer(
        devices=2,
        max_epochs=int(os.environ["MAX_EPOCHS"]),
        callbacks=[last, said, pl.callbacks.OnExceptionCheckpoint("exception")] if os.environ.get("STOP_HERE") else [last],
        logger=pl.loggers.CSVLogger("."),
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    model = Counting()
    rows = DataLoader(TensorDataset(torch.arange(64.0).reshape(16, 4) / 64), batch_size=4)
    if os.environ.get("FIRST_TRY"):
        try:
            trainer.fit(model, rows, ckpt_path=os.environ["FIRST_TRY"])
        except (FileNotFoundError, ValueError) as error:
            print(json.dumps({"error": [type(error).__name__, *error.args]}), flush=True)
            if os.environ.get("ONLY_TRY"):
                raise SystemExit(0) from None
    trainer.fit(model, rows, ckpt_path=sys.argv[1] if len(sys.argv) > 1 else None)
    if os.environ.get("THEN_TRY"):
        try:
            trainer.fit(model, rows, ckpt_path=os.environ["THEN_TRY"])
        except FileNotFoundError:
            trainer.fit_loop.max_epochs += 1
            trainer.fit(model, rows)
    ended = [trainer.current_epoch, trainer.global_step]
    print(
        json.dumps(
            {
                "began": model.began,
                "ended": ended,
                "last": last.last_model_path,
                "job": trainer.job_id,
                "path": trainer.ckpt_path,
            }
        )
    )
