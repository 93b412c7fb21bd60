"""Gangs: the workers, and devices on each, that one job gets in one step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from gpulayer.control.engine.fleet import Fleet, Roster
from gpulayer.control.engine.gates import DeviceWish, Gate, device_wishes, gates_of
from gpulayer.spec.job import DistributedJob, Processes, shape
from gpulayer.spec.records import JobRecord, PlacementChoice, WorkerRecord
from gpulayer.spec.workers import TARGET_OF, Device

Allows = Callable[[WorkerRecord, DeviceWish | None], bool]
"""Whether a job may use a free worker: reservations have a say."""


@dataclass(frozen=True)
class Demand:
    """What one job asks for, worked out once per plan. Jobs with the same ``key`` ask for the same."""

    record: JobRecord
    size: int
    procs: Processes
    targets: tuple[str, ...]
    wishes: tuple[DeviceWish | None, ...]
    gates: tuple[Gate, ...]
    key: tuple[str | int | None, ...]
    _fit: dict[str, bool] = field(default_factory=dict, compare=False, repr=False)

    @staticmethod
    def of(record: JobRecord, owners: frozenset[str] = frozenset()) -> Demand:
        """Work it out; ``owners`` are the processes that have workers of their own."""
        spec = record.spec
        size, procs = shape(spec)
        backend = spec.backend if isinstance(spec, DistributedJob) else None
        texts = spec.resources.model_dump_json(), spec.placement.model_dump_json()
        return Demand(
            record=record,
            size=size,
            procs=procs,
            targets=(spec.placement.target, *spec.placement.fallback_targets),
            wishes=device_wishes(record),
            gates=gates_of(record, owners),
            key=(record.owner, size, procs, backend, *texts),
        )

    def fits(self, worker: WorkerRecord) -> bool:
        """Whether the worker could ever take a share of the job."""
        name = worker.info.id
        fit = self._fit.get(name)
        if fit is None:
            fit = self._fit[name] = not any(gate(worker) for gate in self.gates)
        return fit

    def kinship(self, worker: WorkerRecord) -> str:
        """Return what all workers of the gang must have in common: the torch version, where there are several."""
        return worker.info.capabilities.frameworks.get("torch", "") if self.size > 1 else ""

    def ends_at(self, now: float) -> float:
        """Return the time at which the job must have ended if it starts now; infinity without a timeout."""
        timeout = self.record.spec.timeout_s
        return math.inf if timeout is None else now + timeout


@dataclass
class Gang:
    """Workers chosen so far, with their devices."""

    workers: list[WorkerRecord] = field(default_factory=list)
    devices: list[tuple[Device, ...]] = field(default_factory=list)
    _held: dict[str, set[str]] = field(default_factory=dict)

    def add(self, worker: WorkerRecord, wish: DeviceWish | None, fleet: Fleet) -> bool:
        """Take a worker in if its machine still has the devices, and say whether it had."""
        devices: tuple[Device, ...] = ()
        if wish is not None:
            held = self._held.setdefault(worker.info.capabilities.machine, set())
            free = [device for device in fleet.free_devices(worker, wish) if device.uuid not in held]
            if len(free) < wish.count:
                return False
            devices = tuple(free[: wish.count])
            held.update(device.uuid for device in devices)
        self.workers.append(worker)
        self.devices.append(devices)
        return True

    def choice(self, demand: Demand) -> PlacementChoice:
        """Return the gang as a placement of its job."""
        return PlacementChoice(
            job_id=demand.record.id,
            workers=tuple(worker.info.id for worker in self.workers),
            devices=tuple(self.devices),
            procs_per_worker=max(1, len(self.devices[0])) if demand.procs == "auto" else demand.procs,
        )


def choose(demand: Demand, roster: Roster, fleet: Fleet, allows: Allows | None = None) -> Gang | None:
    """Return the first whole gang, by the job's targets in their order, with the best devices that all can give."""
    for target in demand.targets:
        for wish in demand.wishes:
            gang = gather(demand, candidates(demand, roster, target, wish, all_slots=fleet.idle), wish, fleet, allows)
            if gang is not None:
                return gang
    return None


def candidates(
    demand: Demand, roster: Roster, target: str, wish: DeviceWish | None, *, all_slots: bool = True
) -> Iterable[WorkerRecord]:
    """Return the workers of a target that have enough devices of any kind, and a free slot unless ``all_slots`` are asked."""
    count = wish.count if wish else 0
    workers = roster.with_devices(count) if all_slots else roster.open_with_devices(count)
    if len(demand.targets) == 1:
        return workers
    return (worker for worker in workers if TARGET_OF[worker.info.origin] == target)


def gather(
    demand: Demand, workers: Iterable[WorkerRecord], wish: DeviceWish | None, fleet: Fleet, allows: Allows | None = None
) -> Gang | None:
    """Return the first whole gang among the workers in their order, or None; kin only."""
    gangs: dict[str, Gang] = {}
    for worker in workers:
        if not fleet.has_slot(worker) or not demand.fits(worker) or (allows and not allows(worker, wish)):
            continue
        gang = gangs.setdefault(demand.kinship(worker), Gang())
        if gang.add(worker, wish, fleet) and len(gang.workers) == demand.size:
            return gang
    return None
