"""GPUlayer: Trainer(accelerator="gpulayer").fit() as a distributed job that runs anywhere and comes back whole."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from gpulayer.strategies import autoload, random_start

if TYPE_CHECKING:
    from lightning.pytorch import Trainer as Trainer

    from gpulayer.client.client import Client as Client
    from gpulayer.client.functions import remote as remote
    from gpulayer.client.handles import Job as Job
    from gpulayer.client.launching import launch as launch
    from gpulayer.client.options import JobOptions as JobOptions
    from gpulayer.errors import GPULayerError as GPULayerError
    from gpulayer.errors import JobFailed as JobFailed
    from gpulayer.spec.resources import Resources as Resources
    from gpulayer.strategies.caller import CallerStrategy as GPULayerStrategy  # noqa: F401
    from gpulayer.trainer.trainer import attach as attach
    from gpulayer.trainer.trainer import fetch as fetch

__version__ = "0.1.0"

_HOME_OF = {
    "JobOptions": "gpulayer.client.options",
    "Resources": "gpulayer.spec.resources",
    "CommandJob": "gpulayer.spec.job",
    "FunctionJob": "gpulayer.spec.job",
    "DistributedJob": "gpulayer.spec.job",
    "Trainer": "gpulayer.trainer.trainer",
    "GPULayerStrategy": "gpulayer.trainer.trainer",
    "Client": "gpulayer.client.client",
    "Job": "gpulayer.client.handles",
    "launch": "gpulayer.client.launching",
    "remote": "gpulayer.client.functions",
    "attach": "gpulayer.trainer.trainer",
    "fetch": "gpulayer.trainer.trainer",
    "in_job": "gpulayer.settings",
}
_ERRORS = """
    GPULayerError InvalidJob Unschedulable HomeError WorkerStartFailed UnsupportedPlatform UnsupportedLightning CallRefused
    StaleModule ScriptUnavailable CallsDiverged JobFailed RemoteError JobCancelled JobTimedOut JobLost WorkerLost
    PreparationFailed RendezvousFailed Straggler
"""
_HOME_OF |= dict.fromkeys(_ERRORS.split(), "gpulayer.errors")

__all__ = ["__version__", *sorted(_HOME_OF)]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is not None:
        return getattr(importlib.import_module(home), name)
    module = sys.modules.get(f"{__name__}.{name}")
    if module is not None:
        return module
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__]


autoload.install()
random_start.meet()
if "IPython" in sys.modules:
    importlib.import_module("gpulayer.strategies.notebook").watch()
