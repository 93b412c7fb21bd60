"""Every private name of Lightning that the job's half and outcomes rest on, beside those in ``names``."""

from __future__ import annotations

import functools
import importlib
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

ROOT_DIR = "_default_root_dir"
"""Where a Trainer keeps its root folder."""

LOGGER_FOLDERS = ("_save_dir", "_root_dir", "save_dir", "root_dir")
LOGGER_VERSION = "_version"
SHARDING = ("FSDPStrategy", "ModelParallelStrategy", "DeepSpeedStrategy")


@dataclass(frozen=True)
class Endings:
    """How Lightning ends a call that raised: ``interrupt`` and ``teardown_hooks`` run the user's hooks."""

    interrupt: Callable[[Any, BaseException], None]
    teardown_hooks: Callable[[Any], None]
    tuner_exit: type[Exception]
    finished: Any


@functools.cache
def endings(namespace: str) -> Endings:
    """Look up how calls end in one copy of Lightning."""
    call = importlib.import_module(f"{namespace}.trainer.call")
    return Endings(
        interrupt=call._interrupt,
        teardown_hooks=call._call_teardown_hook,
        tuner_exit=importlib.import_module(f"{namespace}.utilities.exceptions")._TunerExitException,
        finished=importlib.import_module(f"{namespace}.trainer.states").TrainerStatus.FINISHED,
    )


def model_checkpoint(namespace: str) -> Any:
    """Return the ``ModelCheckpoint`` of one copy of Lightning."""
    return importlib.import_module(f"{namespace}.callbacks").ModelCheckpoint


@dataclass(frozen=True)
class PredictionParts:
    """What one copy of Lightning predicts by."""

    update_dataloader: Callable[..., Any]
    parse_num_batches: Callable[[Any, float, Any], float]


@functools.cache
def predicting(namespace: str) -> PredictionParts:
    """Look up how one copy of Lightning predicts."""
    connector = importlib.import_module(f"{namespace}.trainer.connectors.data_connector")
    return PredictionParts(
        update_dataloader=importlib.import_module(f"{namespace}.utilities.data")._update_dataloader,
        parse_num_batches=connector._parse_num_batches,
    )


PREPARE_DATALOADER, PREDICT_STEP, SET_UP_DATA = "_prepare_dataloader", "_predict_step", "setup_data"
"""Methods that ``predictions`` answers in place of, the first of a data connector, the others of a prediction loop."""


def data_connector(trainer: Any) -> Any:
    return trainer._data_connector


def prepare_dataloader(trainer: Any, dataloader: Any, shuffle: bool, mode: Any) -> Any:
    """Make the loader that Lightning walks through, as it does itself."""
    connector = trainer._data_connector
    return type(connector)._prepare_dataloader(connector, dataloader, shuffle=shuffle, mode=mode)


def would_deal_samples(trainer: Any, dataloader: Any) -> bool:
    """Whether Lightning gives each rank some of the loader's samples."""
    return bool(trainer._data_connector._requires_distributed_sampler(dataloader))


def order_of(prepared: Any) -> Any:
    """Return what gives the index batches of a loader that was prepared for predicting."""
    return prepared.batch_sampler._batch_sampler


def put_order(prepared: Any, order: Any) -> None:
    prepared.batch_sampler._batch_sampler = order


def predictions(loop: Any) -> list[list[Any]]:
    """Return what a prediction loop has gathered: for each loader a value for each batch."""
    return [list(made) for made in loop._predictions]


def predict_step(loop: Any, batch: Any, batch_idx: int, dataloader_idx: int, dataloader_iter: Any) -> None:
    type(loop)._predict_step(loop, batch, batch_idx, dataloader_idx, dataloader_iter)


def predict_unheard(trainer: Any, batch: Any, batch_idx: int, dataloader_idx: int) -> None:
    """Compute a batch as a prediction loop does, without its hooks, and forget the value."""
    loop = trainer.predict_loop
    batch = trainer.precision_plugin.convert_input(batch)
    batch = trainer.lightning_module._on_before_batch_transfer(batch, dataloader_idx=dataloader_idx)
    batch = trainer.strategy.batch_to_device(batch, dataloader_idx=dataloader_idx)
    given = loop._build_kwargs(batch, batch_idx, dataloader_idx if loop.num_dataloaders > 1 else None)
    trainer.strategy.predict_step(*loop._build_step_args_from_hook_kwargs(given, "predict_step"))


def computes_together(strategy: Any) -> bool:
    """Whether a forward pass needs all ranks, as each holds a part of the model only."""
    return any(base.__name__ in SHARDING for base in type(strategy).__mro__)


def outer_model(trainer: Any, model: Any) -> Any:
    """Return the module with what the strategy has wrapped around it."""
    outer = getattr(trainer.strategy, "model", None)
    return model if outer is None or not any(each is model for each in outer.modules()) else outer


def tear_down(trainer: Any) -> None:
    """Run the Trainer's own teardown, which is no hook."""
    trainer._teardown()


def begin_as(trainer: Any, namespace: str, function: str, model: Any) -> None:
    """Have a Trainer stand where it stands when it hands a call to its launcher."""
    trainer.state.fn = importlib.import_module(f"{namespace}.trainer.states").TrainerFn(function)
    if model is not None:
        trainer.strategy.connect(model)


def attach_data(trainer: Any, model: Any, given: dict[str, Any]) -> None:
    """Link model and data, profiler and progress bar to the Trainer as the start of a call does."""
    trainer.strategy.connect(model)
    trainer._data_connector.attach_data(model, **given)
    trainer._callback_connector._attach_model_logging_functions()
    trainer.profiler._lightning_module = weakref.proxy(model)
    if trainer.progress_bar_callback is not None:
        trainer.progress_bar_callback._trainer = trainer


def data_loops(trainer: Any) -> dict[str, Any]:
    """Return the loops that have dataloaders, by what they do."""
    fit = trainer.fit_loop
    return {
        "train": fit,
        "validation": fit.epoch_loop.val_loop,
        "validate": trainer.validate_loop,
        "test": trainer.test_loop,
        "predict": trainer.predict_loop,
    }


def combined_loader(loop: Any) -> Any:
    return loop._combined_loader


def put_combined_loader(loop: Any, loader: Any) -> None:
    loop._combined_loader = loader


def set_up_loaders(trainer: Any, stage: str) -> None:
    """Ask for a loop's dataloaders anew and prepare them as a call does, without the rest of what a loop sets up."""
    loop, namespace = data_loops(trainer)[stage], type(trainer.state).__module__.removesuffix(".trainer.states")
    connector = importlib.import_module(f"{namespace}.trainer.connectors.data_connector")
    loaders = importlib.import_module(f"{namespace}.utilities.combined_loader")
    running = importlib.import_module(f"{namespace}.trainer.states").RunningStage(
        "validate" if stage == "validation" else stage
    )
    combined = connector._request_dataloader(loop._data_source)
    if not isinstance(combined, loaders.CombinedLoader):
        combined = loaders.CombinedLoader(combined, "max_size_cycle" if stage == "train" else "sequential")
    if trainer.overfit_batches > 0 and stage in ("train", "validation"):
        connector._resolve_overfit_batches(combined, running)
    function = trainer.state.fn
    combined.flattened = [connector._process_dataloader(trainer, function, running, each) for each in combined.flattened]
    loop._combined_loader = combined


def attach_model_callbacks(trainer: Any) -> None:
    """Let the module's ``configure_callbacks`` add to the Trainer's."""
    trainer._callback_connector._attach_model_callbacks()


def user_checkpoint(trainer: Any) -> Any:
    """Return the ``trainer.ckpt_path`` that the user has set, if any."""
    connector = trainer._checkpoint_connector
    return connector._ckpt_path if connector._user_managed else None


def show_checkpoint(trainer: Any, path: Any) -> None:
    """Have ``trainer.ckpt_path`` name a checkpoint that was loaded, without asking for it to be loaded again."""
    trainer._checkpoint_connector._ckpt_path = path


def resolve_checkpoint(trainer: Any, asked: str | None, model_given: bool) -> Any:
    """Ask Lightning for the file that "best", "last", "hpc" or nothing means; raises and warns as it does in a call."""
    return trainer._checkpoint_connector._parse_ckpt_path(
        trainer.state.fn, asked, model_provided=model_given, model_connected=trainer.lightning_module is not None
    )


def metrics(trainer: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the metrics for bars and for callbacks as they are stored, without computing any."""
    connector = trainer._logger_connector
    return connector._progress_bar_metrics, connector._callback_metrics
