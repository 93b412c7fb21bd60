"""How fast one asker may ask: generous, and a bound all the same."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

_MOST = 50_000


class Rate(NamedTuple):
    """So many requests a second over time, and so many at once."""

    per_s: float = 1000.0
    burst: float = 5000.0


class Rates:
    """A bucket of tokens for each asker, filled as time goes by. For one thread."""

    def __init__(self, rate: Rate, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}

    def wait_for(self, asker: str) -> float:
        """Take one from an asker's bucket; returns 0.0, or how long (seconds) to wait when there is none."""
        now = self._clock()
        left, at = self._buckets.get(asker, (self._rate.burst, now))
        left = min(self._rate.burst, left + (now - at) * self._rate.per_s)
        if left < 1.0:
            return (1.0 - left) / self._rate.per_s
        if len(self._buckets) >= _MOST:
            self._buckets.clear()
        self._buckets[asker] = (left - 1.0, now)
        return 0.0
