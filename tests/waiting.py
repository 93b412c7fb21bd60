"""Waiting for the thing itself, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Seen = TypeVar("Seen")

_PAUSE_S = 0.01


def wait_for(look: Callable[[], Seen], *, within: float, what: str = "it happens") -> Seen:
    """Look again and again until it is true; fail with what was awaited once ``within`` seconds passed."""
    deadline = time.monotonic() + within
    while not (seen := look()):
        assert time.monotonic() < deadline, f"not within {within} s: {what}"
        time.sleep(_PAUSE_S)
    return seen
