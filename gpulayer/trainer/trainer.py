"""``gpulayer.Trainer`` and ``gpulayer.GPULayerStrategy``, made from the copy of Lightning that the program imported."""

from __future__ import annotations

import functools
import importlib
import inspect
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from gpulayer.client.options import JobOptions, options_from
from gpulayer.strategies import autoload
from gpulayer.strategies import names as lightning

if TYPE_CHECKING:
    from lightning.pytorch import Trainer as Trainer


class TrainerWithJob:
    """Lightning's Trainer, with one more argument: ``job`` says where and how its calls run.

    Without another accelerator it is ``accelerator="gpulayer"``; ``job`` beside any other accelerator is refused.
    """

    strategy: Any
    _base_init: Callable[..., None]

    def __init__(self, *args: Any, job: JobOptions | Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        from gpulayer.strategies import connection

        if "PL_TRAINER_ACCELERATOR" not in os.environ and not _is_wish(kwargs.get("strategy")):
            kwargs.setdefault("accelerator", lightning.ACCELERATOR)
        accelerator = kwargs.get("accelerator", lightning.ACCELERATOR)
        if job is not None and accelerator != lightning.ACCELERATOR:
            raise ValueError(
                f"`job=` is for `accelerator='gpulayer'`; this Trainer has {accelerator!r}. A job on that accelerator is"
                f' `job={{"resources": {{"accelerator": {accelerator!r}}}}}`.'
            )
        with connection.job_options(options_from(job)):
            super().__init__(*args, **kwargs)

    @property
    def job_id(self) -> str | None:
        """The id of the job that answered the last call, None before the first."""
        return getattr(self.strategy, "job_id", None)


def attach(job_id: str, trainer: Any = None, model: Any = None, **given: Any) -> Any:
    """Bring home a job that a call with ``JobOptions(detach=True)`` left: wait for its end, then be as after that call.

    ``trainer`` and ``model`` are made as the script makes them, ``given`` is what else the call was given (``datamodule=``,
    ``train_dataloaders=``). In the process that left the job all of them may be left out. Files come to the script's folder.
    Returns what the call returned and raises what it raised; Ctrl-C leaves the job again. ``CallRefused`` where they don't fit.
    """
    from gpulayer.runtime import context

    if context.current() is not None:  # in a later job of the same script, where the call was answered where it stands
        return importlib.import_module("gpulayer.strategies.in_job").answered()
    from gpulayer.strategies import session

    return session.current().attach(job_id, trainer, model, given)


def fetch(trainer: Any) -> None:
    """Bring home what ``JobOptions(fetch=...)`` or ``fetch_limit`` left out: the module's weights, optimizers, checkpoints.

    Paths of checkpoints that were URLs are files then. Nothing is done where all is here. Raises ``CallRefused`` for a Trainer
    that has made no call, and ``NotFound`` where the job's record is gone.
    """
    from gpulayer.runtime import context

    if context.current() is not None:  # all is here
        return
    from gpulayer.strategies import session

    session.current().fetch(trainer)


def _is_wish(strategy: Any) -> bool:
    return hasattr(strategy, "gpulayer_wish")


@functools.cache
def trainer_class(namespace: str) -> type[Any]:
    """Make the Trainer of one copy of Lightning; its signature is Lightning's plus ``job``."""
    autoload.install()
    base = lightning.of(namespace).Trainer
    made = type("Trainer", (TrainerWithJob, base), {"__module__": "gpulayer", "__doc__": TrainerWithJob.__doc__})
    signature = inspect.signature(base.__init__)
    job = inspect.Parameter(
        "job", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=JobOptions | Mapping[str, Any] | None
    )

    @functools.wraps(base.__init__)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        TrainerWithJob.__init__(self, *args, **kwargs)

    init.__signature__ = signature.replace(parameters=[*signature.parameters.values(), job])  # type: ignore[attr-defined]
    made.__init__ = init  # type: ignore[misc]
    return made


def __getattr__(name: str) -> Any:
    if name == "Trainer":
        return trainer_class(lightning.loaded())
    if name == "GPULayerStrategy":
        caller = importlib.import_module("gpulayer.strategies.caller")
        return caller.classes(lightning.loaded()).strategy
    raise AttributeError(name)
