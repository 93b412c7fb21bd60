"""How one object looks, itself and not what it holds: looked at before and after a call, it shows what changed."""

from __future__ import annotations

import contextlib
import random
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy
import torch

from gpulayer.strategies import digest, kinds
from gpulayer.strategies.kinds import Kind

Step = tuple[str, Any]
"""From an object to one that it holds: ("attr", name), ("item", key), ("nth", position), ("cell", name) or ("self", None)."""

_PLAIN = frozenset({str, int, bool, float, type(None)})
"""The most frequent atoms, known without a question."""

_WHOLE_BYTES = 64 << 20
"""Arrays above this size that aren't the module's are told apart by their versions or by samples."""


@dataclass(slots=True)
class Look:
    """What an object showed: ``facts`` compare by value, ``keys`` and ``held`` one by one, by identity.

    It keeps what it mentions alive, so that identities stay true.
    """

    facts: Any = None
    keys: tuple[Any, ...] = ()
    held: tuple[Any, ...] = ()

    def same(self, other: Look) -> bool:
        return (
            self.facts == other.facts
            and len(self.held) == len(other.held)
            and len(self.keys) == len(other.keys)
            and all(map(same, self.keys, other.keys))
            and all(map(same, self.held, other.held))
        )


def look(value: Any, users: frozenset[str] = frozenset()) -> Look:
    """Look at one object."""
    kind = kinds.kind_of(value)
    match kind:
        case Kind.LIST:
            return Look(held=tuple(value))
        case Kind.DICT:
            return Look(keys=tuple(value), held=tuple(value.values()))
        case Kind.SET:
            return Look(facts=_comparable(value))
        case Kind.TENSOR:
            return Look(facts=look_at_tensor(value))
        case Kind.ARRAY:
            return Look(facts=_look_at_array(value))
        case Kind.GENERATOR:
            return Look(facts=repr(generator_state(value)))
        case Kind.OBJECT:
            return _look_at_object(value)
        case Kind.FUNCTION | Kind.CLASS | Kind.MODULE:
            held = inside(value, users)
            return Look(keys=tuple(held), held=tuple(held.values()))
    return Look()


def _comparable(value: Any) -> Any:
    try:
        return frozenset(value)
    except Exception:  # a __hash__ of the user's may raise
        return len(value)


def _look_at_object(value: Any) -> Look:
    own = kinds.attributes(value)
    keys, held = tuple(own), tuple(own.values())
    if isinstance(value, dict):
        return Look(
            (type(value), len(keys)), (*keys, *kinds.base_of(value).keys(value)), (*held, *kinds.base_of(value).values(value))
        )
    if isinstance(value, list):
        return Look((type(value), len(keys)), keys, (*held, *list.__iter__(value)))
    if isinstance(value, set):
        return Look((type(value), len(keys), _comparable(value)), keys, held)
    return Look(type(value), keys, held)


def look_at_tensor(tensor: torch.Tensor) -> Any:
    facts = (tensor.requires_grad, type(tensor), tuple(tensor.shape) if not _lazy(tensor) else None, tensor.dtype)
    if tensor.is_meta or _lazy(tensor):
        return (facts, "")
    try:
        return (facts, digest.of_tensor(tensor))
    except Exception:  # a subclass that shows its bytes to nobody
        return (facts, tensor._version)


def _lazy(tensor: torch.Tensor) -> bool:
    return torch.nn.parameter.is_lazy(tensor)


def _look_at_array(array: Any) -> Any:
    if isinstance(array, bytearray):
        return bytes(array)
    facts = (array.shape, array.dtype.str)
    if array.dtype.hasobject:
        return (facts, [id(item) for item in array.ravel().tolist()])
    if array.nbytes > _WHOLE_BYTES:
        flat = array.reshape(-1) if array.flags.c_contiguous else array.ravel()
        return (facts, hash(flat[:: max(1, flat.size // 65536)].tobytes()))
    return (facts, hash(array.tobytes()))


def generator_state(value: Any) -> Any:
    """Return a random generator's state as plain data."""
    if isinstance(value, torch.Generator):
        return value.get_state().tolist()
    if isinstance(value, random.Random):
        return value.getstate()
    if isinstance(value, numpy.random.RandomState):
        return value.get_state(legacy=False)
    return value.bit_generator.state


def set_generator_state(value: Any, state: Any) -> None:
    """Undo ``generator_state``."""
    if isinstance(value, torch.Generator):
        value.set_state(torch.tensor(state, dtype=torch.uint8))
    elif isinstance(value, random.Random):
        value.setstate((state[0], tuple(state[1]), state[2]))
    elif isinstance(value, numpy.random.RandomState):
        value.set_state(state)
    else:
        value.bit_generator.state = state


def inside(value: Any, users: frozenset[str]) -> dict[str, Any]:
    """Return what a function, a class or a module of the user holds: closure, data attributes, globals."""
    if isinstance(value, types.FunctionType):
        return _inside_function(value) if kinds.is_users(value.__module__, users) else {}
    if isinstance(value, types.ModuleType):
        return _inside_module(value) if kinds.is_users(value.__name__, users) else {}
    if isinstance(value, type) and kinds.is_users(value.__module__, users):
        return {name: held for name, held in vars(value).items() if not name.startswith("__") and _is_data(held)}
    return {}


def _inside_function(function: types.FunctionType) -> dict[str, Any]:
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # an empty cell
            found[name] = cell.cell_contents
    for position, default in enumerate(function.__defaults__ or ()):
        found[f"default {position}"] = default
    return found


def _inside_module(module: types.ModuleType) -> dict[str, Any]:
    return {
        name: held
        for name, held in vars(module).items()
        if not name.startswith("__") and not isinstance(held, types.ModuleType)
    }


def _is_data(held: Any) -> bool:
    return not callable(held) and not hasattr(type(held), "__get__")


def children(value: Any, users: frozenset[str]) -> Iterator[tuple[Step, Any]]:
    """Return what an object holds that has a life of its own, and the step to it."""
    match kinds.kind_of(value):
        case Kind.LIST:
            yield from ((("nth", position), item) for position, item in enumerate(value) if type(item) not in _PLAIN)
        case Kind.DICT:
            yield from _items(value)
        case Kind.METHOD:
            yield ("self", None), value.__self__
        case Kind.OBJECT:
            yield from ((("attr", name), held) for name, held in kinds.attributes(value).items() if type(held) not in _PLAIN)
            if isinstance(value, dict):
                yield from _items(value)
            elif isinstance(value, list):
                yield from ((("nth", position), item) for position, item in enumerate(list.__iter__(value)))
        case Kind.FUNCTION:
            yield from ((("cell", name), held) for name, held in inside(value, users).items())
        case Kind.CLASS | Kind.MODULE:
            yield from ((("attr", name), held) for name, held in inside(value, users).items())


def _items(value: Any) -> Iterator[tuple[Step, Any]]:
    for position, (key, item) in enumerate(kinds.base_of(value).items(value)):
        plain = type(key) in _PLAIN
        if type(item) not in _PLAIN:
            yield (("item", key) if plain else ("value", position)), item
        if not plain:
            yield ("key", position), key


def is_constant(value: Any) -> bool:
    """Say whether a value is a tuple of atoms: it can't change, and which one of several equal ones it is doesn't matter."""
    return type(value) is tuple and all(type(item) in _PLAIN or kinds.kind_of(item) is Kind.ATOM for item in value)


def same(one: Any, other: Any) -> bool:
    """Say whether two held values are the same object, or equal values without identity."""
    if one is other:
        return True
    if type(one) is not type(other) or kinds.kind_of(one) is not Kind.ATOM:
        return False
    try:
        return bool(one == other) or (one != one and other != other)
    except Exception:  # an __eq__ of the user's may raise
        return False
