"""What a value is written as: nodes, and the two ways in which that fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Node = dict[str, Any]
Text = Callable[[str], str]
"""Translates a string on its way."""


class NotCarried(Exception):
    """A value that is neither plain data nor made of it; ``place`` is where in the value it was met."""

    def __init__(self, value: Any, place: str = "") -> None:
        super().__init__(type(value).__name__)
        self.what = type(value).__qualname__
        self.place = place


class Lost(Exception):
    """A node that can't become a value here: its class or its original isn't there."""


def raw_bytes(raw: bytes) -> torch.Tensor:
    """Write bytes as a tensor."""
    return torch.frombuffer(bytearray(raw), dtype=torch.uint8) if raw else torch.empty(0, dtype=torch.uint8)
