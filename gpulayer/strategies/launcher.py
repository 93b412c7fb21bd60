"""The launcher at the caller: where all four calls of a Trainer pass, each becomes a call of the session."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from typing import Any, cast

from gpulayer.errors import CallRefused
from gpulayer.spec.calls import FunctionName
from gpulayer.strategies import names as lightning
from gpulayer.strategies import session
from gpulayer.strategies.session import CallRequest


class CallerLauncher:
    """Where all four calls of a Trainer pass: each becomes a call of this process's session."""

    is_interactive_compatible = True

    def __init__(self, strategy: Any) -> None:
        self.strategy = strategy

    def kill(self, signum: Any) -> None: ...

    def launch(self, function: Callable[..., Any], *args: Any, trainer: Any = None, **kwargs: Any) -> Any:
        name = lightning.FUNCTIONS.get(getattr(function, "__name__", ""))
        if name is None:
            raise CallRefused(f"{function!r} isn't one of fit, validate, test and predict.")
        given = inspect.signature(function).bind(*args, **kwargs)
        given.apply_defaults()
        try:
            return session.current().call(_request(cast(FunctionName, name), trainer, self.strategy, given.arguments))
        except BaseException:
            # Hooks ran in the job, or nothing ran at all: a checkpoint-on-exception here would save an untrained model.
            self.strategy.hidden = lightning.hide_hooks(trainer)
            raise


def _request(function: FunctionName, trainer: Any, strategy: Any, given: dict[str, Any]) -> CallRequest:
    loaders = given.get("train_dataloaders", given.get("dataloaders"))
    datamodule = given.get("datamodule")
    if datamodule is None and isinstance(loaders, strategy.names.LightningDataModule):
        datamodule = loaders
    return CallRequest(
        function=function,
        trainer=trainer,
        model=given["model"] if given.get("model") is not None else trainer.lightning_module,
        model_given=given.get("model") is not None,
        datamodule=datamodule,
        arguments=dict(given),
        ckpt_path=None if given.get("ckpt_path") is None else os.fspath(given["ckpt_path"]),
        ordinal=strategy.ordinal,
        num_nodes=strategy.num_nodes,
        procs_per_worker=strategy.asked,
        options=strategy.options,
        strategy=strategy,
        names=strategy.names,
    )
