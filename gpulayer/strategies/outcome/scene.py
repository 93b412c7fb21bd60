"""The objects that a call of a Trainer may change, named alike at the caller and in the job."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpulayer.strategies import kinds
from gpulayer.strategies.paths import below

_INSTALLED = ("site-packages", "dist-packages")
_NOT_DATA = ("model", "ckpt_path", "verbose", "return_predictions", "weights_only")


@dataclass(frozen=True)
class Scene:
    """Where a call plays. ``arguments`` are the call's, by name; ``users`` names the imported modules of the user."""

    trainer: Any
    model: Any
    datamodule: Any = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    users: frozenset[str] = frozenset()

    def roots(self) -> dict[str, Any]:
        """Return what to look at, the most important first."""
        found: dict[str, Any] = {"trainer": self.trainer, "model": self.model}
        if self.datamodule is not None:
            found["datamodule"] = self.datamodule
        for name, value in self.arguments.items():
            if name not in _NOT_DATA and kinds.kind_of(value) is not kinds.Kind.ATOM:
                found[name] = value
        for name in sorted({"__main__", *self.users}):
            module = sys.modules.get(name)
            if module is not None:
                found[name] = module
        return {name: value for name, value in found.items() if value is not None}


def users_modules(folders: Iterable[str]) -> frozenset[str]:
    """Return the names of the imported modules whose files lie in one of ``folders``, installed packages excepted."""
    kept = tuple(folders)
    found = set()
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or name == "__main__" or any(part in file for part in _INSTALLED):
            continue
        if any(below(file, folder) for folder in kept):
            found.add(name)
    return frozenset(found)
