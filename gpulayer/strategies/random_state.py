"""Python's, numpy's and torch's random states, which every rank and the caller share when a call ends."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import numpy
import torch


class _Left:
    """The states that the last call left in this process: ranks of the job take them over before they walk on."""

    states: dict[str, Any] | None = None


def now() -> dict[str, Any]:
    """Return the states as plain data."""
    return {
        "python": random.getstate(),
        "numpy": numpy.random.get_state(legacy=False),
        "torch": torch.random.get_rng_state(),
    }


def take(states: dict[str, Any]) -> None:
    """Go on with other states; a library that is missing in them keeps its own."""
    if "python" in states:
        version, internal, gauss = states["python"]
        random.setstate((version, tuple(internal), gauss))
    if "numpy" in states:
        numpy.random.set_state(states["numpy"])
    if "torch" in states:
        torch.random.set_rng_state(states["torch"])


@contextlib.contextmanager
def aside(seed: int) -> Iterator[None]:
    """Draw from a seed (below 2**32), and go on as if nothing had been drawn."""
    with kept():
        random.seed(seed)
        numpy.random.seed(seed)
        torch.default_generator.manual_seed(seed)
        yield


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Go on afterwards as if nothing had been drawn."""
    before = now()
    try:
        yield
    finally:
        take(before)


def leave(states: dict[str, Any]) -> None:
    """Take the states that a call left, and remember them as those."""
    take(states)
    _Left.states = states


def left() -> dict[str, Any] | None:
    """Return what the last call left in this process."""
    return _Left.states


def start(noted: dict[str, Any]) -> dict[str, Any]:
    """Complete the states noted at the caller's ``import gpulayer`` by the seed that torch began with."""
    states = dict(noted)
    if "numpy" in states and not isinstance(states["numpy"], dict):
        name, keys, position, has_gauss, gauss = states["numpy"]
        states["numpy"] = {
            "bit_generator": name,
            "state": {"key": keys, "pos": position},
            "has_gauss": has_gauss,
            "gauss": gauss,
        }
    return {"torch_seed": torch.initial_seed(), **states}


def take_torch_seed(states: dict[str, Any]) -> None:
    """Begin with the seed that the caller's torch began with: wherever it was drawn from since, the job draws the same."""
    if states.get("torch_seed") is not None:
        torch.manual_seed(states["torch_seed"])
