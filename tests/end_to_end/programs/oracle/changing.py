"""Callbacks that change the network or its training, manual optimization with several optimizers, and fits that fail."""

from __future__ import annotations

from typing import Any

import described
import given
import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import (
    BackboneFinetuning,
    BaseFinetuning,
    BatchSizeFinder,
    EMAWeightAveraging,
    LearningRateFinder,
    ModelCheckpoint,
    ModelPruning,
    OnExceptionCheckpoint,
    StochasticWeightAveraging,
)
from lightning.pytorch.loggers import CSVLogger

import gpulayer  # noqa: F401


class Data(pl.LightningDataModule):
    """Loaders that are made anew in each epoch, and counted."""

    def __init__(self) -> None:
        super().__init__()
        self.made: dict[str, int] = {}
        self.stages: list[str] = []

    def setup(self, stage: str) -> None:
        self.stages.append(stage)

    def train_dataloader(self) -> Any:
        self.made["train"] = self.made.get("train", 0) + 1
        return {"a": given.rows(24, shuffle=True), "b": given.rows(16)}

    def val_dataloader(self) -> Any:
        self.made["val"] = self.made.get("val", 0) + 1
        return [given.rows(16), given.rows(8)]

    def predict_dataloader(self) -> Any:
        return given.rows(12)

    def state_dict(self) -> dict[str, Any]:
        return {"made": dict(self.made)}


class Manual(given.Net):
    """Steps two optimizers and two schedulers by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch: Any, batch_idx: int) -> None:
        for number, optimizer in enumerate(self.optimizers()):
            optimizer.zero_grad()
            loss = self.loss(batch["ab"[number]])
            self.manual_backward(loss)
            if batch_idx % (number + 1) == 0:
                optimizer.step()
            self.outputs.append(loss.detach())
            self.log(f"loss/{number}", loss, on_step=True, on_epoch=True)

    def on_train_epoch_end(self) -> None:
        super().on_train_epoch_end()
        step, plateau = self.lr_schedulers()
        step.step()
        plateau.step(self.trainer.callback_metrics["val_loss"])

    def configure_optimizers(self) -> Any:
        one = torch.optim.Adam(self.backbone.parameters(), lr=0.01)
        other = torch.optim.SGD(self.head.parameters(), lr=0.05, momentum=0.5)
        step = torch.optim.lr_scheduler.CosineAnnealingLR(one, 5)
        return [one, other], [step, torch.optim.lr_scheduler.ReduceLROnPlateau(other, patience=0)]


class Thawing(BaseFinetuning):
    """Thaws the backbone after an epoch."""

    def freeze_before_training(self, pl_module: Any) -> None:
        self.freeze(pl_module.backbone)

    def finetune_function(self, pl_module: Any, epoch: int, optimizer: Any) -> None:
        if epoch == 1:
            self.unfreeze_and_add_param_group(pl_module.backbone, optimizer, lr=0.001)


class Stepping(given.Net):
    """Fails in its second epoch, or trains what wants gradients."""

    fails = False

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        if self.fails and self.current_epoch == 1:
            self.notes["failed"] = batch_idx
            raise ValueError("no further")
        return super().training_step(batch, batch_idx)

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD([each for each in self.parameters() if each.requires_grad], lr=0.01)


def trainer(*callbacks: Any, **words: Any) -> pl.Trainer:
    settled = {"max_epochs": 3, "logger": False, "enable_checkpointing": False, "enable_model_summary": False, **words}
    return given.trainer(callbacks=list(callbacks), enable_progress_bar=False, log_every_n_steps=1, **settled)


def by_hand() -> None:
    model, data = Manual(), Data()
    fitting = trainer(
        ModelCheckpoint(monitor="val_loss", save_on_train_epoch_end=True, train_time_interval=None),
        reload_dataloaders_every_n_epochs=1,
        enable_checkpointing=True,
        logger=CSVLogger(".", name="hand"),
        profiler="simple",
    )
    fitting.fit(model, datamodule=data)
    described.write("by hand", **described.of(fitting, model, data=data))
    fitting.predict(model, datamodule=data, return_predictions=False)
    described.write("predicted by hand", **described.of(fitting, model, data=data))


def averaged() -> None:
    model = given.Net()
    fitting = trainer(StochasticWeightAveraging(0.01, swa_epoch_start=1), max_epochs=4)
    fitting.fit(model, given.rows(16), given.rows(8))
    described.write("stochastic averages", **described.of(fitting, model))
    model = given.Net()
    fitting = trainer(EMAWeightAveraging(decay=0.5))
    fitting.fit(model, given.rows(16), given.rows(8))
    described.write("moving averages", **described.of(fitting, model))


def pruned() -> None:
    model = given.Net()
    fitting = trainer(ModelPruning("l1_unstructured", amount=0.3))
    fitting.fit(model, given.rows(16))
    described.write("pruned", **described.of(fitting, model))


def finetuned() -> None:
    for callback in (Thawing(), BackboneFinetuning(1, verbose=False)):
        model = Stepping()
        fitting = trainer(callback)
        fitting.fit(model, given.rows(16))
        described.write(type(callback).__name__, **described.of(fitting, model))


def tuned() -> None:
    model = given.Net()
    fitting = trainer(LearningRateFinder(num_training_steps=6, early_stop_threshold=None))
    fitting.fit(model, given.rows(16))
    described.write("learning rate found", **described.of(fitting, model))


def failed() -> None:
    """Fits that raise: what a program that goes on finds in its objects."""
    model = Stepping()
    model.fails = True
    fitting = trainer(OnExceptionCheckpoint("errors"), enable_checkpointing=True)
    try:
        fitting.fit(model, given.rows(16), given.rows(8))
    except ValueError as error:
        described.write("failed", **described.of(fitting, model, error=str(error)))
    model = given.Net()
    fitting = trainer(BatchSizeFinder())
    try:
        fitting.fit(model, given.rows(16))
    except Exception as error:
        described.write("refused", **described.of(fitting, model, error=f"{type(error).__name__}: {error}"))


if __name__ == "__main__":
    pl.seed_everything(3)
    by_hand()
    averaged()
    pruned()
    finetuned()
    tuned()
    failed()
    described.write("files", files=described.files())
    given.part()
