"""Automatic optimization under every callback that watches: fits that end by themselves, by steps, by time; other calls."""

from __future__ import annotations

from typing import Any

import described
import given
import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import (
    BasePredictionWriter,
    Callback,
    DeviceStatsMonitor,
    EarlyStopping,
    GradientAccumulationScheduler,
    LambdaCallback,
    LearningRateMonitor,
    ModelCheckpoint,
    ModelSummary,
    OnExceptionCheckpoint,
    RichModelSummary,
    RichProgressBar,
    SpikeDetection,
    ThroughputMonitor,
    Timer,
    TQDMProgressBar,
)
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger

import gpulayer  # noqa: F401

SEEN: list[str] = []
EPOCHS: dict[str, int] = {}


class Notes(Callback):
    """A callback that keeps what it saw, as people write them."""

    def __init__(self) -> None:
        self.losses: list[float] = []
        self.best: torch.Tensor | None = None
        self.by_epoch: dict[int, dict[str, Any]] = {}
        self.state = {"stopped": None}

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        self.losses.append(float(outputs["loss"]))
        self.best = outputs["loss"] if self.best is None else torch.minimum(self.best, outputs["loss"])

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        self.by_epoch[trainer.current_epoch] = {"step": trainer.global_step, "metrics": dict(trainer.callback_metrics)}

    def state_dict(self) -> dict[str, Any]:
        return {"losses": self.losses}


class Writer(BasePredictionWriter):
    """Counts the predictions that it is given."""

    def __init__(self) -> None:
        super().__init__("batch_and_epoch")
        self.batches = 0
        self.written: list[int] = []

    def write_on_batch_end(self, trainer: Any, pl_module: Any, prediction: Any, indices: Any, *where: Any) -> None:
        self.batches += 1

    def write_on_epoch_end(self, trainer: Any, pl_module: Any, predictions: Any, batch_indices: Any) -> None:
        self.written.append(len(predictions) > 0)


class Bar(TQDMProgressBar):
    """A bar of the user's."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        super().on_train_epoch_end(trainer, pl_module)
        self.told.append(f"epoch {trainer.current_epoch}")


class Plateau(given.Net):
    """Lowers its learning rate when validation no longer gets better."""

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), lr=0.02, momentum=0.9)
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "monitor": "val_loss", "name": "plateau"}}


class Configured(given.Net):
    """Brings callbacks of its own."""

    def configure_callbacks(self) -> list[Any]:
        return [EarlyStopping("val_loss", patience=7), ModelCheckpoint(dirpath="own", monitor="val_loss")]


class Spikes(SpikeDetection):
    """Goes on after a spike."""

    def _handle_spike(self, fabric: Any, batch_idx: int) -> None:
        self.spikes = [*getattr(self, "spikes", []), batch_idx]


def ended_early() -> None:
    """A fit that validation ends, with two loaders for it, two loggers and three kinds of checkpoint; then the other calls."""
    model = Plateau()
    trainer = given.trainer(
        max_epochs=9,
        logger=[CSVLogger(".", name="rows"), TensorBoardLogger(".", name="board")],
        log_every_n_steps=2,
        gradient_clip_val=0.5,
        limit_train_batches=3,
        limit_val_batches=2,
        limit_test_batches=1,
        callbacks=[
            EarlyStopping("val_loss", patience=1, min_delta=100.0),
            ModelCheckpoint(monitor="val_loss", save_top_k=2, save_last=True, filename="{epoch}-{val_loss:.3f}"),
            ModelCheckpoint(dirpath="steps", every_n_train_steps=2, save_top_k=-1, save_weights_only=True),
            ModelCheckpoint(dirpath="last", save_top_k=0, save_last="link"),
            LearningRateMonitor(logging_interval="step", log_momentum=True),
            DeviceStatsMonitor(cpu_stats=False),
            LambdaCallback(on_train_epoch_end=lambda trainer, module: SEEN.append(f"epoch {trainer.current_epoch}")),
            Timer(duration="00:01:00:00"),
            ModelSummary(max_depth=2),
            OnExceptionCheckpoint("errors"),
            Notes(),
            Writer(),
            Bar(),
        ],
    )
    trainer.fit(model, given.rows(32, shuffle=True), [given.rows(16), given.rows(20)])
    described.write("ended early", **described.of(trainer, model, seen=SEEN))
    validated = trainer.validate(model, [given.rows(16), given.rows(20)], ckpt_path="best", verbose=False)
    described.write("validated", **described.of(trainer, model, returned=validated))
    tested = trainer.test(model, given.rows(12), verbose=False)
    described.write("tested", **described.of(trainer, model, returned=tested))
    trainer.predict(model, given.rows(12), return_predictions=False)
    described.write("predicted", **described.of(trainer, model))


def ended_by_steps() -> None:
    """A fit of so many steps, which accumulates gradients and validates in between; it is gone on with afterwards."""
    model = Configured()
    trainer = given.trainer(
        max_steps=7,
        val_check_interval=3,
        check_val_every_n_epoch=None,
        num_sanity_val_steps=0,
        logger=CSVLogger(".", name="steps"),
        log_every_n_steps=1,
        callbacks=[
            GradientAccumulationScheduler({0: 1, 1: 2}),
            LearningRateMonitor(logging_interval="epoch"),
            ThroughputMonitor(batch_size_fn=lambda batch: len(batch[0]), window_size=3),
            Spikes(warmup=2, mode="min", window=3),
            RichModelSummary(),
            RichProgressBar(),
            ModelCheckpoint(monitor="step", mode="max", save_top_k=1, every_n_epochs=1, enable_version_counter=False),
            Notes(),
        ],
    )
    trainer.fit(model, given.rows(32), given.rows(8))
    described.write("ended by steps", **described.of(trainer, model))
    trainer.fit_loop.epoch_loop.max_steps = 9
    trainer.accumulate_grad_batches = 1
    trainer.fit(model, given.rows(32), given.rows(8))
    described.write("gone on with", **described.of(trainer, model))


def ended_by_time() -> None:
    """A fit whose time is over after its first epoch, without validation, loggers or checkpoints."""
    model = given.Net()
    trainer = given.trainer(
        max_time={"seconds": 0}, accumulate_grad_batches=2, logger=False, enable_checkpointing=False, enable_progress_bar=False
    )
    trainer.fit(model, {"a": given.rows(8), "b": given.rows(8)}["a"])
    described.write("ended by time", **described.of(trainer, model))


if __name__ == "__main__":
    pl.seed_everything(3)
    ended_early()
    ended_by_steps()
    ended_by_time()
    described.write("files", files=described.files())
    given.part()
