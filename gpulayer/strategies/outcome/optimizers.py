"""Optimizer, scheduler and precision states after a fit, as Lightning would put them into a checkpoint."""

from __future__ import annotations

from typing import Any


def optimizers_of(trainer: Any, collectives: bool) -> dict[str, Any]:
    """Return the states by kind; ``collectives`` says whether all ranks are here to gather sharded ones."""
    strategy = trainer.strategy
    try:
        states = [
            strategy.optimizer_state(optimizer)
            for optimizer in strategy.optimizers
            if collectives or not hasattr(optimizer, "consolidate_state_dict")
        ]
    except Exception:  # a sharded strategy whose groups are gone
        return {}
    return {
        "optimizers": states,
        "schedulers": [config.scheduler.state_dict() for config in strategy.lr_scheduler_configs],
        "precision": trainer.precision_plugin.state_dict(),
    }
