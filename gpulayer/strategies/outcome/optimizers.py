"""Optimizer, scheduler and precision states after a fit, as Lightning would put them into a checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpulayer.strategies import parts, sharded


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
        "schedulers": [config.scheduler.state_dict() for config in strategy.lr_scheduler_configs],
        "precision": trainer.precision_plugin.state_dict(),
    }


def _gathered(trainer: Any, model: Any) -> list[dict[str, Any]]:
    outer = parts.outer_model(trainer, model)
    return [sharded.optimizer_state(outer, optimizer) for optimizer in trainer.strategy.optimizers]


def restore_optimizers(trainer: Any, states: dict[str, Any], make: Callable[[Any], tuple[list[Any], list[Any]]]) -> None:
    """Give a Trainer in the job the optimizers of a fit that an earlier job computed."""
    if "optimizers" not in states:
        return
    made, configs = make(trainer.lightning_module)
    for optimizer, state in zip(made, states["optimizers"], strict=False):
        optimizer.load_state_dict(state)
    for config, state in zip(configs, states["schedulers"], strict=False):
        config.scheduler.load_state_dict(state)
    trainer.strategy.optimizers = made
    trainer.strategy.lr_scheduler_configs = configs
    if states.get("precision"):
        trainer.precision_plugin.load_state_dict(states["precision"])
