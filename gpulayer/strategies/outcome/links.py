"""The links between a Trainer and what a call gave it, made at the caller as Lightning makes them in the job."""

from __future__ import annotations

import contextlib
from typing import Any

from gpulayer.strategies import parts
from gpulayer.strategies.outcome import loaders
from gpulayer.strategies.outcome.scene import Scene

_LOADERS = {
    "fit": (("train_dataloaders", "train_dataloaders"), ("val_dataloaders", "val_dataloaders")),
    "validate": (("dataloaders", "val_dataloaders"),),
    "test": (("dataloaders", "test_dataloaders"),),
    "predict": (("dataloaders", "predict_dataloaders"),),
}


def attach(scene: Scene, described: dict[str, Any]) -> None:
    """Connect model, data and callbacks to the Trainer; no code of the user's runs. ``described`` is of ``loaders_of``."""
    trainer, model = scene.trainer, scene.model
    if trainer is None or model is None:
        return
    given: dict[str, Any] = {}
    for name, attached in _LOADERS.get(_function(trainer), ()):
        given[attached] = scene.arguments.get(name)
    if scene.datamodule is not None:
        given = {"datamodule": scene.datamodule}
    with contextlib.suppress(AttributeError, TypeError):
        parts.attach_data(trainer, model, given)
        loaders.owe(trainer, described)


def _function(trainer: Any) -> str:
    function = trainer.state.fn
    return "" if function is None else str(function.value)
