"""What a Trainer goes on showing after a fit: its optimizers and schedulers, and its dataloaders, made when looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.callbacks import BaseFinetuning, StochasticWeightAveraging
from torch.utils.data import DataLoader, TensorDataset

from gpulayer.strategies import outcome
from gpulayer.strategies.names import of
from gpulayer.strategies.outcome import Observation, Scene
from gpulayer.strategies.outcome.loaders import loaders_of
from gpulayer.strategies.outcome.optimizers import optimizers_of, rebuilt

pytestmark = pytest.mark.filterwarnings("ignore")
"""Lightning's and torch's own."""


class Net(pl.LightningModule):
    """Trains what wants gradients when its optimizer is made."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone, self.head = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)
        self.asked = 0

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        loss: torch.Tensor = self.head(self.backbone(batch[0])).pow(2).mean()
        return loss

    def validation_step(self, batch: list[torch.Tensor], batch_idx: int) -> None: ...

    def train_dataloader(self) -> Any:
        self.asked += 1
        return DataLoader(TensorDataset(torch.rand(8, 2)), batch_size=2)

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.Adam([each for each in self.parameters() if each.requires_grad], lr=0.01)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]


class Thawing(BaseFinetuning):
    """Adds the backbone's parameters as a group of their own after an epoch."""

    def freeze_before_training(self, pl_module: Any) -> None:
        self.freeze(pl_module.backbone)

    def finetune_function(self, pl_module: Any, epoch: int, optimizer: Any) -> None:
        if epoch == 1:
            self.unfreeze_and_add_param_group(pl_module.backbone, optimizer, lr=0.002)


def trainer(*callbacks: Any, **words: Any) -> Any:
    return pl.Trainer(
        **{"max_epochs": 3, "limit_train_batches": 2, "enable_progress_bar": False, **words},
        accelerator="cpu",
        callbacks=list(callbacks),
        logger=False,
        enable_checkpointing=False,
        enable_model_summary=False,
    )


def carried_home(make: Callable[[], Any], *, val: Any = None) -> tuple[Any, Net, Any, Net, dict[str, Any]]:
    """Fit in one place and apply it in another: Trainer and model there and here, and what else came along."""
    there, model, here, own = make(), Net(), make(), Net()
    observation = Observation({"trainer": there, "model": model})
    there.fit(model, val_dataloaders=val)
    extra = {"loaders": loaders_of(there), **optimizers_of(there, there.lightning_module, collectives=True)}
    body = outcome.collect(observation, trainer=there, extra=extra)
    applied = outcome.apply(body, Scene(here, own, None, {"val_dataloaders": val}))
    return there, model, here, own, applied.extra


def named(optimizer: Any, model: Net) -> list[list[str]]:
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return [[names[id(each)] for each in group["params"]] for group in optimizer.param_groups]


def test_parameters_that_a_callback_added_to_an_optimizer_are_its_own_here_too() -> None:
    there, model, _, own, extra = carried_home(lambda: trainer(Thawing()))

    (optimizer,), (config,) = rebuilt(extra, own, of("lightning.pytorch").init_optimizers)

    assert named(optimizer, own) == named(there.optimizers[0], model)
    assert [group["lr"] for group in optimizer.param_groups] == [group["lr"] for group in there.optimizers[0].param_groups]
    assert len(optimizer.state_dict()["state"]) == 4
    assert config.scheduler.last_epoch == 3


def test_a_scheduler_that_a_callback_put_in_the_place_of_another_is_of_its_class() -> None:
    there, _, _, own, extra = carried_home(lambda: trainer(StochasticWeightAveraging(0.01, swa_epoch_start=1)))

    (optimizer,), (config,) = rebuilt(extra, own, of("lightning.pytorch").init_optimizers)

    expected = there.lr_scheduler_configs[0].scheduler
    assert isinstance(config.scheduler, torch.optim.swa_utils.SWALR)
    assert config.scheduler.optimizer is optimizer
    assert config.scheduler.get_last_lr() == expected.get_last_lr()


def test_a_fit_that_ended_before_it_had_optimizers_leaves_none() -> None:
    made, configs = rebuilt({"optimizers": []}, Net(), of("lightning.pytorch").init_optimizers)

    assert made == []
    assert configs == []


def test_dataloaders_are_shown_as_after_a_local_fit_and_asked_for_when_looked_at() -> None:
    val = DataLoader(TensorDataset(torch.rand(4, 2)), batch_size=4)
    there, _, here, own, _ = carried_home(trainer, val=val)
    asked, states = own.asked, torch.get_rng_state()

    assert here.val_dataloaders is val
    assert own.asked == asked
    assert here.train_dataloader is here.train_dataloader
    assert own.asked == asked + 1
    assert torch.equal(torch.get_rng_state(), states)
    assert [len(batch[0]) for batch in here.train_dataloader] == [2, 2, 2, 2]
    assert here.fit_loop._combined_loader.limits == there.fit_loop._combined_loader.limits == [2]
    assert here.fit_loop.epoch_loop.val_loop.num_dataloaders == 1
    assert here.test_dataloaders is None


def test_profiler_and_progress_bar_know_module_and_trainer() -> None:
    here, model = trainer(enable_progress_bar=True), Net()
    body = outcome.collect(Observation({}))

    outcome.apply(body, Scene(here, model))

    assert here.progress_bar_callback.trainer is here
    assert here.profiler._lightning_module.asked == model.asked
