"""Every private name of Lightning that the caller's half rests on, so that a new release breaks one file and its test."""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

from gpulayer.errors import UnsupportedLightning

ACCELERATOR = "gpulayer"
NAMESPACES = {"lightning.pytorch": "lightning.fabric", "pytorch_lightning": "lightning_fabric"}
"""The copies of Lightning that a program can import, each with its own copy of Fabric."""

DISTRIBUTIONS = {"lightning.pytorch": "lightning", "pytorch_lightning": "pytorch-lightning"}
CONNECTOR = "trainer.connectors.accelerator_connector"
SUPPORTED = ((2, 4), (2, 5), (2, 6))

FUNCTIONS = {"_fit_impl": "fit", "_validate_impl": "validate", "_test_impl": "test", "_predict_impl": "predict"}
"""What ``_call_and_handle_interrupt`` hands to the launcher, and what people call it."""


@dataclass(frozen=True)
class Names:
    """One copy of Lightning, by the names that we use of it."""

    namespace: str
    version: str
    Connector: type[Any]
    AcceleratorRegistry: Any
    Accelerator: type[Any]
    CUDAAccelerator: type[Any]
    Strategy: type[Any]
    ParallelStrategy: type[Any]
    FSDPStrategy: type[Any]
    Launcher: type[Any]
    LightningEnvironment: type[Any]
    ClusterEnvironment: type[Any]
    Misconfiguration: type[Exception]
    LightningDataModule: type[Any]
    Trainer: type[Any]
    init_optimizers: Any
    setup: ModuleType
    """The module whose ``_log_device_info`` a Trainer calls while it is made."""


def loaded() -> str:
    """Return the namespace that the program imported; ``lightning.pytorch`` when it has both or neither."""
    for namespace in NAMESPACES:
        if namespace in sys.modules:
            return namespace
    for namespace in NAMESPACES:
        if importlib.util.find_spec(namespace.partition(".")[0]) is not None:
            return namespace
    raise UnsupportedLightning("Lightning isn't installed.")


def version_of(namespace: str) -> str:
    return str(importlib.import_module(namespace).__version__)


def check(version: str) -> None:
    """Refuse a Lightning whose private names were never tried."""
    parts = version.split(".")
    minor = tuple(int(part) for part in parts[:2]) if all(part.isdigit() for part in parts[:2]) else ()
    if minor not in SUPPORTED:
        tried = ", ".join(f"{major}.{small}" for major, small in SUPPORTED)
        raise UnsupportedLightning(f"This is Lightning {version}; GPUlayer knows {tried}.", version=version)


@functools.cache
def of(namespace: str) -> Names:
    """Look all names of one copy up; raises ``UnsupportedLightning`` where one is missing."""
    version = version_of(namespace)
    check(version)
    fabric = NAMESPACES[namespace]

    def get(module: str, name: str) -> Any:
        return getattr(importlib.import_module(module), name)

    try:
        return Names(
            namespace=namespace,
            version=version,
            Connector=get(f"{namespace}.{CONNECTOR}", "_AcceleratorConnector"),
            AcceleratorRegistry=get(f"{namespace}.accelerators", "AcceleratorRegistry"),
            Accelerator=get(f"{namespace}.accelerators", "Accelerator"),
            CUDAAccelerator=get(f"{namespace}.accelerators", "CUDAAccelerator"),
            Strategy=get(f"{namespace}.strategies", "Strategy"),
            ParallelStrategy=get(f"{namespace}.strategies", "ParallelStrategy"),
            FSDPStrategy=get(f"{namespace}.strategies", "FSDPStrategy"),
            Launcher=get(f"{namespace}.strategies.launchers.launcher", "_Launcher"),
            LightningEnvironment=get(f"{fabric}.plugins.environments", "LightningEnvironment"),
            ClusterEnvironment=get(f"{fabric}.plugins.environments", "ClusterEnvironment"),
            Misconfiguration=get(f"{namespace}.utilities.exceptions", "MisconfigurationException"),
            LightningDataModule=get(namespace, "LightningDataModule"),
            Trainer=get(namespace, "Trainer"),
            init_optimizers=get(f"{namespace}.core.optimizer", "_init_optimizers_and_lr_schedulers"),
            setup=importlib.import_module(f"{namespace}.trainer.setup"),
        )
    except (ImportError, AttributeError) as cause:
        raise UnsupportedLightning(f"Lightning {version} has no {cause}.", version=version) from cause


@dataclass(frozen=True)
class Hooks:
    """What ``_interrupt`` would call on a Trainer: taken away while an error that was already told is raised again."""

    trainer: Any
    callbacks: list[Any]
    loggers: list[Any]
    datamodule: Any


def hide_hooks(trainer: Any) -> Hooks:
    """Leave the Trainer without callbacks, loggers and datamodule, and return them."""
    hidden = Hooks(trainer, trainer.callbacks, trainer._loggers, trainer.datamodule)
    trainer.callbacks, trainer._loggers, trainer.datamodule = [], [], None
    return hidden


def show_hooks(trainer: Any, hidden: Hooks) -> None:
    """Give back what ``hide_hooks`` took."""
    trainer.callbacks, trainer._loggers, trainer.datamodule = hidden.callbacks, hidden.loggers, hidden.datamodule


@contextlib.contextmanager
def data_seen(trainer: Any) -> Iterator[None]:
    """Have ``estimated_stepping_batches`` count the batches of the job instead of loading the user's data here."""
    loop = trainer.fit_loop
    before = loop._combined_loader
    loop._combined_loader = SimpleNamespace(iterables=())
    try:
        yield
    finally:
        loop._combined_loader = before


def last_checkpoints(trainer: Any) -> list[str]:
    """Return the local files that Lightning would choose ``ckpt_path="last"`` from, as they are at the caller."""
    found: set[Any] = set()
    for callback in trainer.checkpoint_callbacks:
        find = getattr(callback, "_find_last_checkpoints", None)
        if find is not None:
            found |= set(find(trainer))
        elif getattr(callback, "ckpt_path", None):
            found.add(callback.ckpt_path)
    return sorted(os.path.abspath(path) for path in found if path and os.path.exists(path))
