"""Does something to a module as soon as a program imports it, before anyone else sees the module (standard library only)."""

from __future__ import annotations

import importlib.abc
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

Act = Callable[[ModuleType], None]


def when(name: str, act: Act) -> None:
    """Act on a module now if it was imported already, and otherwise at the end of its import."""
    if name in sys.modules:
        act(sys.modules[name])
    else:
        sys.meta_path.insert(0, _Finder(name, act))


class _Finder(importlib.abc.MetaPathFinder):
    """Lets the other finders find the module, and wraps the loader that they return."""

    def __init__(self, name: str, act: Act) -> None:
        self._name = name
        self._act = act

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != self._name:
            return None
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        for finder in sys.meta_path:
            found = finder.find_spec(name, path, target)
            if found is not None and found.loader is not None:
                found.loader = _Loader(found.loader, self._act)
                return found
        return None


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: importlib.abc.Loader, act: Act) -> None:
        self._loader = loader
        self._act = act

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._act(module)
