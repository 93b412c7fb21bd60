"""The private names of Lightning that the job's half and outcomes rest on are there."""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any

import lightning.pytorch as pl
import pytest
from lightning.pytorch.overrides.distributed import _IndexBatchSamplerWrapper
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler

from gpulayer.strategies import names, parts

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def trainer() -> Any:
    return pl.Trainer(accelerator="cpu", logger=pl.loggers.CSVLogger("."), enable_progress_bar=False)


def test_calls_end_as_we_think_they_do() -> None:
    endings = parts.endings(names.loaded())
    assert list(inspect.signature(endings.interrupt).parameters) == ["trainer", "exception"]
    assert list(inspect.signature(endings.teardown_hooks).parameters) == ["trainer"]
    assert issubclass(endings.tuner_exit, Exception)
    assert endings.finished.value == "finished"


def test_a_trainer_has_the_parts_that_are_touched(trainer: Any) -> None:
    for part, attributes in {
        "_data_connector": ("attach_data", "_prepare_dataloader", "_requires_distributed_sampler"),
        "predict_loop": ("_predictions", "max_batches", "_build_kwargs", "_build_step_args_from_hook_kwargs"),
        "_callback_connector": ("_attach_model_callbacks", "_attach_model_logging_functions"),
        "_checkpoint_connector": ("_ckpt_path", "_user_managed", "_parse_ckpt_path"),
        "_logger_connector": ("_progress_bar_metrics", "_callback_metrics", "_logged_metrics"),
        "strategy": ("_launcher", "_lightning_module", "save_checkpoint", "load_checkpoint", "remove_checkpoint"),
        "fit_loop": ("epoch_loop", "max_batches", "_data_source", "_combined_loader"),
    }.items():
        for attribute in attributes:
            assert hasattr(getattr(trainer, part), attribute), f"{part}.{attribute}"
    assert parts.ROOT_DIR in vars(trainer)
    assert parts.LOGGER_VERSION in vars(trainer.logger)
    assert set(parts.LOGGER_FOLDERS) & set(vars(trainer.logger))
    assert hasattr(trainer, "_teardown")
    assert parts.metrics(trainer) == ({}, {})


def test_model_checkpoint_asks_file_exists_before_it_writes() -> None:
    asks = parts.model_checkpoint(names.loaded()).file_exists
    assert list(inspect.signature(asks).parameters) == ["self", "filepath", "trainer"]


def test_attributes_that_are_left_alone_exist_in_lightning(trainer: Any) -> None:
    from gpulayer.strategies import kinds

    class Net(pl.LightningModule):
        pass

    assert {"_trainer", "_metric_attributes"} <= set(vars(Net())) & kinds.skipped(Net)
    assert {"trainer", "_data_source", "_combined_loader"} <= set(vars(trainer.fit_loop)) & kinds.skipped(
        type(trainer.fit_loop)
    )


def test_predictions_pass_through_the_methods_that_are_replaced(trainer: Any) -> None:
    found = parts.predicting(names.loaded())
    assert list(inspect.signature(type(trainer.predict_loop).setup_data).parameters) == ["self"]
    step = ["self", "batch", "batch_idx", "dataloader_idx", "dataloader_iter"]
    assert list(inspect.signature(type(trainer.predict_loop)._predict_step).parameters) == step
    assert list(inspect.signature(found.update_dataloader).parameters) == ["dataloader", "sampler", "mode"]
    assert list(inspect.signature(found.parse_num_batches).parameters) == ["stage", "length", "limit_batches"]
    order = BatchSampler(SequentialSampler(range(3)), 2, drop_last=False)
    wrapped = _IndexBatchSamplerWrapper(order)
    assert parts.order_of(SimpleNamespace(batch_sampler=wrapped)) is order
    assert (list(wrapped), wrapped.seen_batch_indices) == ([[0, 1], [2]], [[0, 1], [2]])


def test_dataloaders_of_every_loop_can_be_asked_for_without_running_it(trainer: Any) -> None:
    loaders = {stage: DataLoader(range(3), batch_size=2) for stage in ("train", "val", "test", "predict")}  # type: ignore[arg-type]
    given = {f"{stage}_dataloaders": loader for stage, loader in loaders.items()}
    trainer.state.fn = pl.trainer.states.TrainerFn.FITTING
    parts.attach_data(trainer, pl.LightningModule(), given)

    for stage, loop in parts.data_loops(trainer).items():
        assert parts.combined_loader(loop) is None
        parts.set_up_loaders(trainer, stage)
        parts.combined_loader(loop).limits = [1]
        assert [len(loader) for loader in parts.combined_loader(loop).flattened] == [2]

    assert trainer.train_dataloader is loaders["train"]
    assert trainer.val_dataloaders is loaders["val"]
    assert trainer.predict_dataloaders.dataset is loaders["predict"].dataset


def test_strategies_whose_ranks_compute_together_are_known() -> None:
    from lightning.pytorch import strategies

    assert parts.computes_together(strategies.FSDPStrategy())
    assert parts.computes_together(strategies.ModelParallelStrategy())
    assert not parts.computes_together(strategies.DDPStrategy())
    assert strategies.DeepSpeedStrategy.__name__ in parts.SHARDING


def test_a_trainer_can_stand_where_it_hands_a_call_on(trainer: Any) -> None:
    model = pl.LightningModule()
    for function in ("fit", "validate", "test", "predict"):
        parts.begin_as(trainer, names.loaded(), function, model)
        assert trainer.state.fn.value == function
        assert trainer.lightning_module is model
