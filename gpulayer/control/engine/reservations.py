"""Reservations: the workers that the first blocked gang of each priority waits for."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gpulayer.control.engine.fleet import Fleet, Roster
from gpulayer.control.engine.gangs import Demand, Gang, candidates, gather
from gpulayer.control.engine.gates import DeviceWish
from gpulayer.spec.records import WorkerRecord

_ANY_MOMENT = -math.inf
"""The earliest start of a gang that waits for somebody without a timeout: nothing may go before it."""


class Reservations:
    """Who waits for which workers, and from when on. It changes as the plan is made."""

    def __init__(self) -> None:
        self._priorities: set[int] = set()
        self._workers: dict[str, tuple[float, str]] = {}
        self._machines: dict[str, tuple[float, str]] = {}
        """Machines of which devices are waited for: their other workers may not take these away."""

    def reserve(self, demand: Demand, roster: Roster, fleet: Fleet, now: float) -> None:
        """Reserve workers for a blocked gang, if it is the first of its priority."""
        priority = demand.record.spec.priority
        if priority in self._priorities:
            return
        self._priorities.add(priority)
        offers = list(self._offers(demand, roster, fleet, now))
        if not offers:
            return
        start, wish, gang = min(offers, key=lambda offer: offer[0])
        held = (_ANY_MOMENT if start == math.inf else start, demand.record.id)
        for worker in gang.workers:
            _lower(self._workers, worker.info.id, held)
            if wish is not None:
                _lower(self._machines, worker.info.capabilities.machine, held)

    def allows(self, worker: WorkerRecord, wish: DeviceWish | None, ends_at: float) -> bool:
        """Whether a later job that ends by ``ends_at`` may use the worker now."""
        return not self._workers or self._hold(worker, wish)[0] >= ends_at

    def holder(self, worker: WorkerRecord, wish: DeviceWish | None) -> str:
        """Return the job that a worker is reserved for."""
        return self._hold(worker, wish)[1]

    def _hold(self, worker: WorkerRecord, wish: DeviceWish | None) -> tuple[float, str]:
        free = (math.inf, "")
        hold = self._workers.get(worker.info.id, free)
        return hold if wish is None else min(hold, self._machines.get(worker.info.capabilities.machine, free))

    def _offers(
        self, demand: Demand, roster: Roster, fleet: Fleet, now: float
    ) -> Iterator[tuple[float, DeviceWish | None, Gang]]:
        """Yield, for each target and kind of device, the gang that could start soonest and when that is."""
        nobody_busy = Fleet((), idle=True)
        for target in demand.targets:
            for wish in demand.wishes:
                here = [worker for worker in candidates(demand, roster, target, wish) if demand.fits(worker)]
                at = {worker.info.id: fleet.free_at(worker, wish, now) for worker in here}
                soonest = sorted(here, key=lambda each: (self._hold(each, wish)[0] < math.inf, at[each.info.id]))
                gang = gather(demand, soonest, wish, nobody_busy)
                if gang is not None:
                    yield max(at[worker.info.id] for worker in gang.workers), wish, gang


def _lower(held: dict[str, tuple[float, str]], name: str, hold: tuple[float, str]) -> None:
    held[name] = min(held.get(name, hold), hold)
