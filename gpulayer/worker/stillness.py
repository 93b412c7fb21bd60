"""Watches ranks for a sign of life while others of their job wait for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpulayer.worker import processes
from gpulayer.worker.stragglers import BUSY_SHARE, processor_time

_LONGEST_PAUSE_S = 10.0


@dataclass(frozen=True)
class Signs:
    """What a rank's processes have done so far: lines and files are bytes that they moved."""

    used_s: float
    moved: int


class Stillness:
    """Looks at the ranks of one task now and then: which show no sign of life for as long as the order says.

    What works in silence uses processor time, what waits for a slow disk or network reads or writes now and then. A rank that
    a signal stopped, or that waits for something that won't come, does neither.
    """

    def __init__(self, signs: Callable[[int], Signs] | None = None) -> None:
        self._signs = signs or signs_of
        self._after_s: float | None = None
        self._seen: dict[int, tuple[float, Signs]] = {}
        self._told: tuple[int, ...] = ()

    def due(self, after_s: float | None) -> float | None:
        """Return how long to wait for the next look; None while nobody waits for these ranks."""
        return None if after_s is None else min(_LONGEST_PAUSE_S, max(0.1, after_s / 6))

    def look(self, after_s: float | None, pids: Mapping[int, int], now: float) -> tuple[int, ...] | None:
        """Return the ranks (of ``pids``, by rank) that are still, at monotonic time ``now``; None when it is as told before."""
        if after_s != self._after_s:
            self._after_s, self._seen = after_s, {}
        still = (
            () if after_s is None else tuple(rank for rank in sorted(pids) if self._is_still(rank, pids[rank], after_s, now))
        )
        if still == self._told:
            return None
        self._told = still
        return still

    def _is_still(self, rank: int, pid: int, after_s: float, now: float) -> bool:
        signs = self._signs(pid)
        since, before = self._seen.setdefault(rank, (now, signs))
        if signs.moved != before.moved or signs.used_s - before.used_s > BUSY_SHARE * after_s:
            self._seen[rank] = (now, signs)
            return False
        return now - since >= after_s


def signs_of(pid: int) -> Signs:
    """Look at a process and its living descendants."""
    family = [pid, *(process.pid for process in processes.descendants(pid))]
    return Signs(processor_time(pid), sum(map(processes.moved, family)))
