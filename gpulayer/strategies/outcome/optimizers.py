"""Optimizer, scheduler and precision states after a fit, as Lightning would put them into a checkpoint."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from itertools import zip_longest
from typing import Any

from gpulayer.strategies import kinds, parts, sharded

Made = tuple[list[Any], list[Any]]
"""Optimizers, and the configs of their schedulers."""


def optimizers_of(trainer: Any, model: Any, collectives: bool) -> dict[str, Any]:
    """Return the states by kind; ``collectives`` says whether all ranks are here to gather sharded ones."""
    strategy = trainer.strategy
    try:
        states = (
            _gathered(trainer, model)
            if collectives and sharded.is_sharded(model)
            else [
                strategy.optimizer_state(optimizer)
                for optimizer in strategy.optimizers
                if collectives or not hasattr(optimizer, "consolidate_state_dict")
            ]
        )
    except Exception:  # a sharded strategy whose groups are gone
        return {}
    return {
        "optimizers": states,
        "groups": [_names(optimizer, trainer.lightning_module) for optimizer in strategy.optimizers],
        "schedulers": [config.scheduler.state_dict() for config in strategy.lr_scheduler_configs],
        "configs": [_config(config, strategy.optimizers) for config in strategy.lr_scheduler_configs],
        "precision": trainer.precision_plugin.state_dict(),
    }


def _gathered(trainer: Any, model: Any) -> list[dict[str, Any]]:
    outer = parts.outer_model(trainer, model)
    return [sharded.optimizer_state(outer, optimizer) for optimizer in trainer.strategy.optimizers]


def _names(optimizer: Any, model: Any) -> list[list[str | None]]:
    """Return the names of the parameters in each group; a callback may have added some since the fit began."""
    names = {id(parameter): name for name, parameter in model.named_parameters(remove_duplicate=False)}
    return [[names.get(id(parameter)) for parameter in group["params"]] for group in optimizer.param_groups]


def _config(config: Any, optimizers: list[Any]) -> dict[str, Any]:
    """Return when a scheduler steps, its class and its optimizer; a callback may have put it in another one's place."""
    scheduler = config.scheduler
    whose = [number for number, optimizer in enumerate(optimizers) if optimizer is getattr(scheduler, "optimizer", None)]
    when = {field.name: getattr(config, field.name) for field in dataclasses.fields(config) if field.name != "scheduler"}
    classes = {"config": kinds.by_name(type(config)), "scheduler": kinds.by_name(type(scheduler))}
    return {**classes, "of": whose[0] if whose else None, "when": when}


def rebuilt(extra: dict[str, Any], model: Any, make: Callable[[Any], Made]) -> Made:
    """Make the optimizers and schedulers of a finished fit anew and give them the states that they had at its end."""
    if not extra["optimizers"]:  # it ended before there were any
        return [], []
    optimizers, configs = make(model)
    parameters = dict(model.named_parameters(remove_duplicate=False))
    for optimizer, groups in zip(optimizers, extra.get("groups", ()), strict=False):
        _regroup(optimizer, groups, parameters)
    for optimizer, state in zip(optimizers, extra["optimizers"], strict=False):
        optimizer.load_state_dict(state)
    configs = [_as_in_job(*pair, optimizers) for pair in zip_longest(configs, extra.get("configs", configs))]
    for config, state in zip(configs, extra.get("schedulers", ()), strict=False):
        config.scheduler.load_state_dict(state)
    return optimizers, configs


def _regroup(optimizer: Any, groups: list[list[str | None]], parameters: dict[str, Any]) -> None:
    """Let an optimizer's groups hold the parameters that they held in the job; their settings come with the states."""
    if any(name not in parameters for names in groups for name in names):
        return
    held = [[parameters[str(name)] for name in names] for names in groups]
    own = optimizer.param_groups
    for group, wanted in zip(own, held, strict=False):
        if [id(each) for each in group["params"]] != [id(each) for each in wanted]:
            group["params"] = wanted
    own[len(held) :] = [{"params": wanted} for wanted in held[len(own) :]]


def _as_in_job(own: Any, described: Any, optimizers: list[Any]) -> Any:
    """Return the config of a scheduler: ours, or one of the job's class where a callback put that into its place."""
    if not isinstance(described, dict) or None in (described["config"], described["scheduler"], described["of"]):
        return own
    if own is None or kinds.by_name(type(own.scheduler)) != described["scheduler"]:
        cls = kinds.find(*described["scheduler"])
        scheduler = cls.__new__(cls)  # what its constructor makes is in its state, and it would change the optimizer
        scheduler.optimizer = optimizers[described["of"]]
        own = kinds.find(*described["config"])(scheduler)
    for name, value in described["when"].items():
        setattr(own, name, value)
    return own


def restore_optimizers(trainer: Any, extra: dict[str, Any], make: Callable[[Any], Made]) -> None:
    """Give a Trainer in the job the optimizers of a fit that an earlier job computed."""
    if "optimizers" not in extra:
        return
    trainer.strategy.optimizers, trainer.strategy.lr_scheduler_configs = rebuilt(extra, trainer.lightning_module, make)
    if extra.get("precision"):
        trainer.precision_plugin.load_state_dict(extra["precision"])
