"""Puts the seam into Lightning as soon as a program imports it; standard library only, and it never raises."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.abc import Loader, MetaPathFinder
else:
    # What they really are takes longer to import than all the rest, in every process that imports us, and nothing looks.
    Loader = MetaPathFinder = object

_TARGETS = {
    "lightning.pytorch.trainer.connectors.accelerator_connector": "lightning.pytorch",
    "pytorch_lightning.trainer.connectors.accelerator_connector": "pytorch_lightning",
}
STARTED_PID = os.getpid()
STARTED_CWD = os.path.abspath(os.curdir) if os.path.isdir(os.curdir) else "/"
"""Where the process stood when it first met us, before a script (or hydra) moved."""


def install() -> None:
    """Watch for Lightning's import; called by ``import gpulayer`` and by PyTorch's ``torch.backends`` entry point.

    An exception here would make ``import torch`` fail for every program of the environment: all of them are swallowed,
    and a Trainer that asks for the accelerator then gets Lightning's own "not registered".
    """
    try:
        if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
            sys.meta_path.insert(0, _Finder())
        for name in _TARGETS:
            module = sys.modules.get(name)
            if module is not None and getattr(module, "_AcceleratorConnector", None) is not None:
                _attach(module)
    except Exception:
        return


def _attach(module: ModuleType) -> None:
    try:
        seam = importlib.import_module("gpulayer.strategies.seam")
        seam.attach(module, _TARGETS[module.__name__])
    except Exception:
        if os.environ.get("GPULAYER_LOG_LEVEL") == "debug":
            raise


class _Finder(MetaPathFinder):
    """Lets the other finders find the connector, and wraps the loader that they return."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in _TARGETS:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                spec.loader = _Loader(spec.loader)
                return spec
        return None


class _Loader(Loader):
    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> object:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        _attach(module)
