"""Objects of classes: which can be made from their attributes alone, and how those are read and set."""

from __future__ import annotations

import collections
import contextlib
import copyreg
import dataclasses
import sys
import types
from typing import Any

import torch

from gpulayer.strategies import kinds
from gpulayer.strategies.codec.nodes import NotCarried

_STANDARD = sys.stdlib_module_names - {"__main__"}


def tolerant(cls: type[Any]) -> bool:
    """Say whether objects of a class are still themselves without an attribute that couldn't be carried."""
    return issubclass(cls, torch.nn.Module) or kinds.quiet(cls)


def makeable(cls: type[Any]) -> bool:
    """Say whether an object of a class can be made from its attributes alone."""
    if issubclass(cls, torch.nn.Module):
        return not kinds.closed(cls)
    if kinds.closed(cls) or any(name in vars(base) for base in cls.__mro__ for name in ("__reduce__",) if base is not object):
        return cls in (collections.Counter, types.SimpleNamespace) or issubclass(cls, collections.OrderedDict)
    if dataclasses.is_dataclass(cls):
        return True
    root = cls.__module__.partition(".")[0]
    ours = root not in _STANDARD or cls.__name__ == "Namespace"
    return ours and cls.__new__ in (object.__new__, dict.__new__, list.__new__, set.__new__)


def has_own(cls: type[Any], method: str) -> bool:
    """Say whether a class has a say in its state; dataclasses are known by their fields."""
    return not dataclasses.is_dataclass(cls) and any(method in vars(base) for base in cls.__mro__ if base is not object)


def state_of(value: Any) -> dict[str, Any]:
    """Return the state that a new object of the same class is made of, as ``__getstate__`` gives it where the class has one."""
    cls = type(value)
    if has_own(cls, "__getstate__"):
        state = value.__getstate__()
        if isinstance(state, dict):
            return {name: held for name, held in state.items() if name not in kinds.skipped(cls)}
        raise NotCarried(value)
    return kinds.attributes(value)


def set_attributes(value: Any, own: dict[str, Any]) -> None:
    """Set attributes past any ``__setattr__`` of the class, in ``__dict__`` and in slots."""
    slots = set(copyreg._slotnames(type(value)))  # type: ignore[attr-defined]
    for name, held in own.items():
        if name in slots:
            object.__setattr__(value, name, held)
        else:
            value.__dict__[name] = held


def delete_attribute(value: Any, name: str) -> None:
    with contextlib.suppress(AttributeError, KeyError):
        if name in getattr(value, "__dict__", ()):
            del value.__dict__[name]
        else:
            object.__delattr__(value, name)
