"""What is free among the workers while a plan is made: task slots, and devices by machine."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence

from gpulayer.control.engine.gates import DeviceWish, Refusal
from gpulayer.spec.records import WorkerRecord
from gpulayer.spec.workers import Device

_SERVING = frozenset({"online", "draining"})


class Roster:
    """The workers of a snapshot that serve, those with the fewest devices first: a small worker is taken before a big one."""

    def __init__(self, workers: Iterable[WorkerRecord]) -> None:
        serving, counts, owners = [], [], set()
        for worker in workers:  # thousands, at every plan: one pass
            if worker.state in _SERVING:
                serving.append(worker)
                counts.append(len(worker.info.capabilities.devices))
                if worker.info.owner is not None:
                    owners.add(worker.info.owner)
        order = sorted(range(len(serving)), key=counts.__getitem__)
        self.workers = [serving[at] for at in order]
        self._counts = [counts[at] for at in order]
        self.owners = frozenset(owners)
        self._open = [worker for worker in self.workers if not worker.busy or len(worker.busy) < worker.info.slots]
        self._open_counts = [len(worker.info.capabilities.devices) for worker in self._open]

    def with_devices(self, count: int) -> Sequence[WorkerRecord]:
        """Return the workers that have at least ``count`` devices of any kind."""
        return self.workers[bisect_left(self._counts, count) :] if count else self.workers

    def open_with_devices(self, count: int) -> Sequence[WorkerRecord]:
        """Return those of them that had a slot free when the plan began: a plan only ever has less to give."""
        return self._open[bisect_left(self._open_counts, count) :] if count else self._open


class Fleet:
    """Slots and leases as they will be once the plan's placements are made. It changes as the plan is made.

    A lease is of (machine, uuid): workers that share a machine share its devices.
    """

    def __init__(self, workers: Iterable[WorkerRecord], *, idle: bool = False) -> None:
        """Start from what the workers hold, or (``idle``) from nobody holding anything."""
        self.idle = idle
        self._placed: dict[str, int] = {}
        self._slot_until: dict[str, float] = {}
        self._leases: dict[str, _Leases] = {}
        self._holders: dict[str, list[WorkerRecord]] = {}
        for worker in () if idle else workers:
            if worker.leased:
                self._holders.setdefault(worker.info.capabilities.machine, []).append(worker)

    def has_slot(self, worker: WorkerRecord) -> bool:
        """Whether the worker could take one more task."""
        return self._used(worker) < worker.info.slots

    def free_devices(self, worker: WorkerRecord, wish: DeviceWish) -> list[Device]:
        """Return the suitable devices of a worker that nobody on its machine holds."""
        has = worker.info.capabilities
        leased = self._on(has.machine).uuids
        return [device for device in has.devices if wish.suits(device) and device.uuid not in leased]

    def refusal(self, worker: WorkerRecord, wish: DeviceWish | None) -> Refusal | None:
        """Say why a fit worker can't take the task now."""
        if not self.has_slot(worker):
            slots, used = worker.info.slots, self._used(worker)
            text = "is busy" if slots == 1 else f"is busy ({used} of {slots} slots taken)"
            return Refusal(text, "a task slot on it becomes free")
        if wish is not None:
            free = len(self.free_devices(worker, wish))
            if free < wish.count:
                return Refusal(f"needs {wish}, {free} of them free now", f"{wish.count} of its devices become free")
        return None

    def free_at(self, worker: WorkerRecord, wish: DeviceWish | None, now: float) -> float:
        """Return when a fit worker must be able to take the task at the latest; infinity where nobody knows."""
        at = now
        if not self.has_slot(worker):
            held = _until(worker) if worker.busy else now
            at = max(at, held, self._slot_until.get(worker.info.id, now))
        if wish is not None and len(self.free_devices(worker, wish)) < wish.count:
            at = max(at, self._on(worker.info.capabilities.machine).until)
        return at

    def take(self, worker: WorkerRecord, devices: Iterable[Device], until: float) -> None:
        """Hand out one slot of a worker, and devices of its machine, until (at the latest) a time."""
        name = worker.info.id
        self._placed[name] = self._placed.get(name, 0) + 1
        self._slot_until[name] = max(until, self._slot_until.get(name, until))
        uuids = [device.uuid for device in devices]
        if uuids:
            self._on(worker.info.capabilities.machine).add(uuids, until)

    def _on(self, machine: str) -> _Leases:
        """Return what is leased on a machine, worked out when it is first asked for."""
        found = self._leases.get(machine)
        if found is None:
            found = self._leases[machine] = _Leases()
            for worker in self._holders.get(machine, ()):
                found.add(worker.leased, _until(worker))
        return found

    def _used(self, worker: WorkerRecord) -> int:
        return (0 if self.idle else len(worker.busy)) + self._placed.get(worker.info.id, 0)


class _Leases:
    """The devices of one machine that are held, and when the last of them must be free."""

    def __init__(self) -> None:
        self.uuids: set[str] = set()
        self.until = -math.inf

    def add(self, uuids: Iterable[str], until: float) -> None:
        self.uuids.update(uuids)
        self.until = max(self.until, until)


def _until(worker: WorkerRecord) -> float:
    return math.inf if worker.busy_until is None else worker.busy_until
