"""Deals whole batches out to ranks: rank r of W takes the batches r, r + W, r + 2W, ... of the order of one device."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterable, Iterator
from typing import Any

from gpulayer.strategies import random_state

_TORCHS_OWN = "torch.utils.data.sampler"


class Dealt:
    """What one rank gets of the index batches (or, without automatic batching, of the indices) that ``order`` gives.

    ``limit`` counts the batches of all ranks. Every rank walks through the whole order, drawn under the same ``seed``. An
    ``even`` deal gives each rank as many batches as the first: a rank that would have one less repeats the order's last, for
    models whose ranks must compute at the same time, and ``extra_at`` then tells which of its batches that is.
    """

    def __init__(
        self, order: Iterable[Any], replica: int, replicas: int, *, limit: float = math.inf, seed: int = 0, even: bool = False
    ) -> None:
        self._order = order
        self._replica = replica
        self._replicas = replicas
        self._limit = limit
        self._seed = seed
        self._even = even
        self.marks: list[int] = []
        """For each batch of the order that was walked so far, a number that tells the way up to it from another one."""
        self.extra_at: int | None = None

    def __iter__(self) -> Iterator[Any]:
        self.marks, self.extra_at = [], None
        count, last, way = 0, None, hashlib.sha256()
        for last in self._drawn():
            way.update(f"{last};".encode())
            self.marks.append(int.from_bytes(way.digest()[:8], "big"))
            if count % self._replicas == self._replica:
                yield last
            count += 1
        if self._even and 0 < count % self._replicas <= self._replica:
            self.extra_at = count // self._replicas
            yield last

    def __len__(self) -> int:
        """How many batches this rank gets; at least one if any rank does, as Lightning leaves a loader without any alone."""
        total = min(length_of(self._order), self._limit)
        if math.isinf(total):
            raise TypeError(f"{type(self._order).__name__} has no length.")
        if self._even:
            return math.ceil(total / self._replicas)
        return max(len(range(self._replica, int(total), self._replicas)), min(1, int(total)))

    def _drawn(self) -> Iterator[Any]:
        with random_state.aside(self._seed):
            stream = iter(self._order)
            # Those of torch draw all their random numbers before they give the first index.
            begun = list(itertools.islice(stream, 1 if self._draws_first() else None))
        stop = None if math.isinf(self._limit) else int(self._limit)
        return itertools.islice(itertools.chain(begun, stream), stop)

    def _draws_first(self) -> bool:
        parts = (self._order, getattr(self._order, "sampler", self._order))
        return math.isinf(length_of(self._order)) or all(type(part).__module__ == _TORCHS_OWN for part in parts)


def length_of(order: Any) -> float:
    """How many batches an order has; infinity where it can't say."""
    try:
        return len(order)
    except (TypeError, NotImplementedError):
        return math.inf
