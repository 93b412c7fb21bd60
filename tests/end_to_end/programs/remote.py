"""A fit and a test on the workers of a plane; what came of them is written to the file that OUTCOME names."""

import json
import os
import sys
import time

import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from whole import Net, loader

import gpulayer as gl

if __name__ == "__main__":
    torch.manual_seed(int(os.environ["SEED"]))  # a KeyError in a job to which it is not forwarded
    checkpoint = ModelCheckpoint(monitor="val_loss", save_last=True)
    away = os.environ.get("ACCELERATOR", "gpulayer") == "gpulayer"
    trainer = gl.Trainer(
        accelerator="gpulayer" if away else "cpu",
        num_nodes=2 if away else 1,
        devices=os.environ.get("DEVICES", "2"),
        job=json.loads(os.environ["JOB"]) if "JOB" in os.environ else None,
        max_epochs=int(os.environ.get("MAX_EPOCHS", "2")),
        callbacks=[checkpoint],
        logger=CSVLogger("."),
        log_every_n_steps=2,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    model = Net()
    if os.environ.get("READ"):
        model.on_train_start = lambda: open(os.environ["READ"]).close()
    if os.environ.get("ENDLESS"):
        print("UP", flush=True)
        model.on_train_start = lambda: time.sleep(600)
    trainer.fit(model, loader(64), loader(16), ckpt_path=sys.argv[1] if len(sys.argv) > 1 else None)
    fitted = {name: value.clone() for name, value in model.state_dict().items()}
    (tested,) = trainer.test(model, loader(12), ckpt_path="best", verbose=False)
    if trainer.is_global_zero:
        outcome = {
            "fitted": fitted,
            "best": Net.load_from_checkpoint(checkpoint.best_model_path).state_dict(),
            "metrics": {name: float(value) for name, value in trainer.callback_metrics.items()},
            "test": tested,
            "counts": [trainer.current_epoch, trainer.global_step],
            "paths": [os.path.relpath(path) for path in (checkpoint.best_model_path, checkpoint.last_model_path) if path],
        }
        torch.save(outcome, os.environ["OUTCOME"])
        print("JOB", getattr(trainer, "job_id", None), flush=True)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
