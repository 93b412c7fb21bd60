"""Calls that save, load and end in the ways that MODE names; prints what a user would look at, as JSON lines."""

import json
import os
import signal
import threading
import time

import lightning.pytorch as pl
import torch
from lightning.pytorch.plugins.io import AsyncCheckpointIO, TorchCheckpointIO
from torch.utils.data import DataLoader, TensorDataset

import gpulayer as gl

MODE = os.environ["MODE"]
JOB = json.loads(os.environ.get("JOB", "{}"))
QUIET = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}


class Odd(ValueError):
    """The user's own."""


class Tiny(pl.LightningModule):
    raises = ""

    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Linear(4, 1, bias=False)
        self.register_buffer("twin", torch.zeros(1, 4))

    def on_train_start(self) -> None:
        print("BEGAN", self.current_epoch, self.global_step, flush=True)

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        if MODE == "counted":
            print("ROWS", self.current_epoch, *(int(row[0] * 16) for row in batch[0]), flush=True)
            self.log("loss", batch[0].sum())
            if os.environ.get("DIE") and (self.current_epoch, index, self.global_rank) == (2, 1, 0):
                os.kill(os.getpid(), signal.SIGKILL)
        if MODE == "stopped" and self.global_step == 3:
            print("STEPPING", flush=True)
            time.sleep(600 * self.global_rank)
        return self.net(batch[0]).pow(2).mean()

    def validation_step(self, batch: list[torch.Tensor], index: int) -> None:
        if self.raises == "validation_step" and self.global_rank == 1:
            raise Odd("validation_step", index)
        self.log("val_loss", self.net(batch[0]).pow(2).mean(), sync_dist=True)

    def test_step(self, batch: list[torch.Tensor], index: int) -> None:
        self.log("rows", float(len(batch[0])), reduce_fx="sum", sync_dist=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        if self.raises == "configure_optimizers" and self.global_rank == 1:
            raise Odd("configure_optimizers", 0)
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Twin(pl.Callback):
    """Copies the weights after each step, before a checkpoint: a save that is torn has the two from different steps."""

    def on_train_batch_end(self, trainer: pl.Trainer, module: Tiny, *_: object) -> None:
        module.twin.copy_(module.net.weight.detach())


class FullDisk(TorchCheckpointIO):
    """Cannot save."""

    def save_checkpoint(self, *_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "best.ckpt")


def rows(count: int = 32, **options: object) -> DataLoader:
    return DataLoader(TensorDataset(torch.arange(4.0 * count).reshape(count, 4) / 64), batch_size=4, **options)


def tell(**facts: object) -> None:
    print(json.dumps(facts), flush=True)


def trainer(**given: object) -> pl.Trainer:
    return gl.Trainer(**{"devices": 2, "max_epochs": 1, "job": JOB, **QUIET, **given})


def raising() -> None:
    """Rank 1 raises before the first step, or in a validation, while rank 0 waits for it; then all is well."""
    told, model = [], Tiny()
    for where in ("configure_optimizers", "validation_step"):
        model.raises = where
        since = time.monotonic()
        try:
            trainer().fit(model, rows(), rows(8))
        except Odd as error:
            told.append([*error.args, "On rank 1 of the job" in error.__notes__[-1], time.monotonic() - since < 30])
    model.raises = ""
    made = trainer()
    made.fit(model, rows(), rows(8))
    tell(told=told, steps=made.global_step)


def unsaved() -> None:
    """Rank 0 can't save."""
    made = trainer(plugins=[FullDisk()], enable_checkpointing=True)
    try:
        made.fit(Tiny(), rows())
    except OSError as error:
        tell(error=[type(error).__name__, error.errno, error.strerror, error.filename], job=made.job_id)


def background() -> None:
    """Saves go on while the weights change, and a second call saves nothing."""
    kept = pl.callbacks.ModelCheckpoint("kept", every_n_train_steps=1, save_top_k=-1)
    made = trainer(plugins=[AsyncCheckpointIO()], callbacks=[Twin(), kept], enable_checkpointing=True, max_epochs=2)
    model = Tiny()
    made.fit(model, rows())
    made.validate(model, rows(8), verbose=False)
    states = [torch.load(os.path.join("kept", name), weights_only=True)["state_dict"] for name in os.listdir("kept")]
    whole = all(torch.equal(state["net.weight"], state["twin"]) for state in states)
    tell(saves=len(states), whole=whole, loss="val_loss" in made.callback_metrics)


def tested() -> None:
    """A test with loader workers on each rank, without a fit before it; then a process of the script's that lingers."""
    shape = {"num_nodes": 2, "devices": 1}
    made, other = trainer(**shape), trainer(**shape)
    (told,) = made.test(Tiny(), rows(num_workers=2), verbose=False)
    if gl.in_job():
        print("NODE", made.node_rank, flush=True)
        threading.Thread(target=time.sleep, args=(600,)).start()
    made.fit(Tiny(), rows())
    other.fit(Tiny(), rows())
    (again,) = made.test(Tiny(), rows(), verbose=False)
    tell(rows=[told["rows"], again["rows"]], steps=[made.global_step, other.global_step], job=made.job_id)


def defaults() -> None:
    """Lightning's own logger and checkpoint callback."""
    made = gl.Trainer(devices=2, max_epochs=1, job=JOB, enable_progress_bar=False, enable_model_summary=False)
    made.fit(Tiny(), rows())
    best = made.checkpoint_callback.best_model_path
    state = torch.load(best, weights_only=True)
    tell(best=os.path.relpath(best), step=state["global_step"], log_dir=os.path.relpath(made.log_dir), job=made.job_id)


def counted() -> None:
    """Rank 0 dies in the third epoch, unless this is the run that goes on from there."""
    saving = {"callbacks": [pl.callbacks.ModelCheckpoint("kept", save_last=True)], "enable_checkpointing": True}
    logger = pl.loggers.CSVLogger(".", name="logs")
    made = trainer(max_epochs=4, logger=logger, log_every_n_steps=1, **saving)
    try:
        made.fit(Tiny(), rows(), ckpt_path=None if os.environ.get("DIE") else "last")
    except gl.JobFailed:
        tell(job=made.job_id)
    else:
        ended = [made.current_epoch, made.global_step]
        tell(job=made.job_id, ended=ended, version=logger.version, log_dir=os.path.relpath(made.log_dir))


def stopped() -> None:
    """Rank 1 is in a long step when the job is cancelled."""
    saving = {"callbacks": [pl.callbacks.OnExceptionCheckpoint("kept")], "enable_checkpointing": True}
    trainer(max_epochs=1000, **saving).fit(Tiny(), rows())


def slow() -> None:
    """Each epoch's checkpoint goes as soon as the next is there."""
    kept = pl.callbacks.ModelCheckpoint("kept", filename="{epoch}", save_top_k=1)
    made = trainer(devices=1, max_epochs=3, callbacks=[kept], enable_checkpointing=True)
    made.fit(Tiny(), rows())
    tell(best=os.path.relpath(kept.best_model_path), here=os.listdir("kept"), job=made.job_id)


if __name__ == "__main__":
    globals()[MODE]()
