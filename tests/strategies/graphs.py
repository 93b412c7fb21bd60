"""Compares two object graphs attribute by attribute: what an outcome brought home against what it left behind."""

from __future__ import annotations

from typing import Any

import torch

from gpulayer.strategies import digest, kinds
from gpulayer.strategies.kinds import Kind
from gpulayer.strategies.outcome import looks

TIMES = ("_last_time_checked", "_last_val_time", "_train_start_time", "_time_elapsed", "_start_time", "_end_time")
"""Attributes that may differ, in name: clocks of a process, and callbacks' links that Lightning makes anew."""


def differences(one: dict[str, Any], other: dict[str, Any], users: frozenset[str] = frozenset()) -> list[str]:
    """Return where the graphs below equally named roots differ."""
    found: list[str] = []
    pairs: dict[int, int] = {}
    back: dict[int, int] = {}
    waiting = [(name, one[name], other[name]) for name in one]
    keep = []
    while waiting:
        place, a, b = waiting.pop()
        keep.append((a, b))
        kind = kinds.kind_of(a)
        if kind is not kinds.kind_of(b) or (type(a).__qualname__ != type(b).__qualname__):
            found.append(f"{place}: {type(a).__qualname__} and {type(b).__qualname__}")
            continue
        if kind is Kind.ATOM:
            if not (a == b or (a != a and b != b)):
                found.append(f"{place}: {a!r} and {b!r}")
            continue
        if kind in (Kind.OPAQUE, Kind.METHOD, Kind.FUNCTION, Kind.CLASS, Kind.MODULE):
            continue
        if id(a) in pairs or id(b) in back:
            if pairs.get(id(a)) != id(b) or back.get(id(b)) != id(a):
                found.append(f"{place}: shared on one side only")
            continue
        pairs[id(a)], back[id(b)] = id(b), id(a)
        if kind is Kind.TENSOR:
            if not _same_tensors(a, b):
                found.append(f"{place}: tensors differ")
            continue
        inside_a, inside_b = dict(_children(a, users)), dict(_children(b, users))
        for step in inside_a.keys() ^ inside_b.keys():
            found.append(f"{place}{step}: on one side only")
        for step in inside_a.keys() & inside_b.keys():
            if step[1] not in TIMES:
                waiting.append((f"{place}.{step[1]}", inside_a[step], inside_b[step]))
    return sorted(found)


def _children(value: Any, users: frozenset[str]) -> Any:
    if isinstance(value, set | frozenset):
        yield ("elements", "set"), tuple(sorted(map(repr, value)))
        return
    for step, child in looks.children(value, users):
        yield (step[0], step[1]), child


def _same_tensors(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.requires_grad == b.requires_grad and digest.of_tensor(a) == digest.of_tensor(b)
