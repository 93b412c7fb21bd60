"""Finds ranks that wait inside a call for peers who have finished it and won't come."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from gpulayer.spec.calls import CallView
from gpulayer.spec.causes import Evidence
from gpulayer.spec.records import Order
from gpulayer.worker import processes

BUSY_SHARE = 0.02
"""A rank that uses more of a processor than this is at work; what reports progress uses less."""


@dataclass(frozen=True)
class Still:
    """Since when a rank has not worked, and how much processor time it had used by then."""

    since: float
    used_s: float


class Stragglers:
    """Looks at the ranks of one task now and then: who stands still for ``straggler_grace_s`` while a peer holds is named.

    Ranks that drew unequal numbers of batches wait in a collective for ever: under bare torchrun the peer's end breaks it,
    but here the peer holds inside the call. Work that one rank alone has at a call's end (an upload) may take any time.
    """

    def __init__(self, node_rank: int, used_s: Callable[[int], float] | None = None) -> None:
        self._node_rank = node_rank
        self._used_s = used_s or processor_time
        self._still: dict[int, Still] = {}

    def due(self, order: Order) -> float | None:
        """Return how long to wait for the next look; None while nobody waits for anybody."""
        calls = order.spec.calls
        return None if calls is None or _unequal(order) is None else max(0.1, calls.straggler_grace_s / 6)

    def look(self, order: Order, pids: dict[int, int], now: float) -> Evidence | None:
        """Return evidence of a rank (of ``pids``, by rank) that stood still for too long, at monotonic time ``now``."""
        view, calls = _unequal(order), order.spec.calls
        if view is None or calls is None:
            self._still = {}
            return None
        finished = {outcome.rank for outcome in view.outcomes}
        for rank, pid in pids.items():
            if rank not in finished and self._stands_still(rank, pid, calls.straggler_grace_s, now):
                return Evidence(
                    kind="straggler",
                    node_rank=self._node_rank,
                    rank=rank,
                    sentence=_sentence(rank, view.call, finished, calls.straggler_grace_s),
                )
        return None

    def _stands_still(self, rank: int, pid: int, grace_s: float, now: float) -> bool:
        used = self._used_s(pid)
        still = self._still.setdefault(rank, Still(now, used))
        if used - still.used_s > BUSY_SHARE * grace_s:
            self._still[rank] = Still(now, used)
        return now - self._still[rank].since >= grace_s


def _unequal(order: Order) -> CallView | None:
    """Return the call that some ranks have finished and others have not."""
    world = order.num_workers * order.procs_per_worker
    return next((view for view in order.calls if view.begun and 0 < len(view.outcomes) < world), None)


def _sentence(rank: int, call: int, finished: Collection[int], grace_s: float) -> str:
    done = ", ".join(map(str, sorted(finished)))
    return (
        f"Rank {rank} stood still inside call {call} for {grace_s:g} s after rank {done} had finished it. "
        "Did the ranks get different numbers of batches?"
    )


def processor_time(pid: int) -> float:
    """Return the seconds of processor time that a process and its living descendants have used."""
    own = processes.stat(pid)
    used: float = sum(process.used_s for process in (*((own,) if own else ()), *processes.descendants(pid)))
    return used
