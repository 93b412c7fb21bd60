"""Gates: what a job asks of a worker, each answering yes or with the sentence that people read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from packaging.utils import canonicalize_name

from gpulayer.control.engine import versions
from gpulayer.spec.job import DistributedJob, shape
from gpulayer.spec.records import JobRecord, WorkerRecord
from gpulayer.spec.resources import Resources
from gpulayer.spec.workers import TARGET_OF, Device


@dataclass(frozen=True)
class Refusal:
    """Why a worker can't take a job, and the change after which it could.

    ``joins`` says instead what another worker must have, where nothing that a person says would change this one.
    """

    sentence: str
    change: str = ""
    joins: str = ""


_MOST_DEVICES = 64
"""No machine has more: eight GPUs of seven partitions are 56."""

Gate = Callable[[WorkerRecord], Refusal | None]


@dataclass(frozen=True)
class DeviceWish:
    """So many devices of a kind on each worker."""

    kind: str
    count: int
    memory_gb: float | None = None
    model: str | None = None

    def suits(self, device: Device) -> bool:
        """Say whether a device is one of these."""
        if device.kind != self.kind:
            return False
        if self.memory_gb is not None and (device.memory_gb or 0.0) < self.memory_gb:
            return False
        return self.model is None or self.model.lower() in device.name.lower()

    def __str__(self) -> str:
        return self._detailed(f"{self.count} usable {self.kind} device(s)")

    def in_words(self) -> str:
        """Name the devices as what a worker may have: ``2 cuda devices with 40 GB``."""
        return self._detailed(f"{self.count} {self.kind} {'device' if self.count == 1 else 'devices'}")

    def _detailed(self, text: str) -> str:
        if self.model is not None:
            text += f" of model {self.model}"
        return text if self.memory_gb is None else f"{text} with {self.memory_gb:g} GB"


def device_wishes(record: JobRecord) -> tuple[DeviceWish | None, ...]:
    """Return what a job would like of each worker, best first; None is to run without devices.

    ``auto`` is cuda (or mps, for one process) where every process can have a device of its own, else cpu.
    """
    spec = record.spec
    need = spec.resources
    workers, procs = shape(spec)
    if procs == "auto":
        return _as_many_as_there_are(need, workers)
    count = max(need.gpu_count, procs)
    cuda = DeviceWish("cuda", count, need.gpu_memory_gb, need.gpu_model)
    mps = DeviceWish("mps", count, need.gpu_memory_gb, need.gpu_model)
    if need.accelerator == "cpu":
        return (None,)
    if need.accelerator == "mps":
        return (mps,)
    if need.accelerator == "cuda" or need.gpu_count or need.gpu_memory_gb or need.gpu_model:
        return (cuda,)
    return (cuda, mps, None) if workers * procs == 1 else (cuda, None)


def _as_many_as_there_are(need: Resources, workers: int) -> tuple[DeviceWish | None, ...]:
    """Return the wishes of a job with ``auto`` processes: the more devices the better, unless it says how many."""
    if need.accelerator == "cpu":
        return (None,)
    mps = DeviceWish("mps", 1, need.gpu_memory_gb, need.gpu_model)
    if need.accelerator == "mps":
        return (mps,)
    counts = (need.gpu_count,) if need.gpu_count else range(_MOST_DEVICES, 0, -1)
    cuda = tuple(DeviceWish("cuda", count, need.gpu_memory_gb, need.gpu_model) for count in counts)
    if need.accelerator == "cuda" or need.gpu_count or need.gpu_memory_gb or need.gpu_model:
        return cuda
    return (*cuda, mps, None) if workers == 1 else (*cuda, None)


def gates_of(record: JobRecord, owners: frozenset[str] = frozenset()) -> tuple[Gate, ...]:
    """Return the lasting gates of a job: what no waiting would change. ``owners`` have workers of their own."""
    return tuple(_gates(record, owners))


def refusals(gates: tuple[Gate, ...], worker: WorkerRecord) -> Iterator[Refusal]:
    """Yield every reason that makes a worker unfit."""
    for gate in gates:
        refusal = gate(worker)
        if refusal is not None:
            yield refusal


def _gates(record: JobRecord, owners: frozenset[str]) -> Iterator[Gate]:
    """Yield only the gates that this job has: a plan asks them of thousands of workers."""
    need, place = record.spec.resources, record.spec.placement
    yield _online
    chosen = bool(place.workers or place.labels)
    yield _owner(record.owner, has_own=record.owner in owners and not chosen)
    yield _target((place.target, *place.fallback_targets))
    if place.workers:
        yield _named(place.workers)
    if place.labels:
        yield _labels(place.labels)
    wishes = device_wishes(record)
    if wishes[-1] is not None:
        yield _devices(wishes[-1])
    yield from _sizes(need)
    if need.python:
        yield _python(need.python)
    for name, specifier in {**({"torch": need.torch} if need.torch else {}), **need.frameworks}.items():
        yield _framework(name, specifier)
    if isinstance(record.spec, DistributedJob):
        yield from _distributed(record.spec)


def _online(worker: WorkerRecord) -> Refusal | None:
    if worker.state != "online":
        return Refusal(f"is {worker.state}", "it takes tasks again")
    return None if worker.info.slots > 0 else Refusal("has no task slots", "it has a task slot")


def _owner(owner: str | None, *, has_own: bool) -> Gate:
    """Keep the jobs of a process that started workers to these: only they have its environment."""

    def gate(worker: WorkerRecord) -> Refusal | None:
        if worker.info.owner == owner or (worker.info.owner is None and not has_own):
            return None
        if worker.info.owner is None:
            return Refusal("does not have the environment of the process that submits", "placement.workers names it")
        return Refusal("takes only the jobs of the process that started it", "the process that started it submits the job")

    return gate


def _target(targets: tuple[str, ...]) -> Gate:
    asked = " or ".join(targets)

    def gate(worker: WorkerRecord) -> Refusal | None:
        target = TARGET_OF[worker.info.origin]
        if target in targets:
            return None
        return Refusal(f"serves target {target}, the job asks for {asked}", f"placement.fallback_targets lists {target}")

    return gate


def _named(names: tuple[str, ...]) -> Gate:
    wanted = frozenset(names)

    def gate(worker: WorkerRecord) -> Refusal | None:
        if worker.info.id in wanted or worker.info.name in wanted:
            return None
        return Refusal(f"is not one of the named workers ({', '.join(names)})", "placement.workers names it")

    return gate


def _labels(labels: dict[str, str]) -> Gate:
    def gate(worker: WorkerRecord) -> Refusal | None:
        has = worker.info.labels
        for key, value in labels.items():
            if has.get(key) != value:
                found = f"{key}={has[key]}" if key in has else f"no label {key}"
                return Refusal(f"needs label {key}={value}, worker has {found}", f"it carries the label {key}={value}")
        return None

    return gate


def _devices(wish: DeviceWish) -> Gate:
    def gate(worker: WorkerRecord) -> Refusal | None:
        has = sum(map(wish.suits, worker.info.capabilities.devices))
        if has >= wish.count:
            return None
        sentence = f"needs {wish}, worker has {has}"
        if has == 0:
            return Refusal(sentence, joins=wish.in_words())
        return Refusal(sentence, f"the job asks for {has} {wish.kind} {'device' if has == 1 else 'devices'} on each worker")

    return gate


def _sizes(need: Resources) -> Iterator[Gate]:
    for field, unit in (("cpus", "cpu(s)"), ("memory_gb", "GB of memory"), ("disk_gb", "GB of disk")):
        wanted = getattr(need, field)
        if wanted is not None:
            yield _size(field, unit, wanted)


def _size(field: str, unit: str, wanted: float) -> Gate:
    def gate(worker: WorkerRecord) -> Refusal | None:
        has: float = getattr(worker.info.capabilities, field)
        if has >= wanted:
            return None
        return Refusal(f"needs {wanted:g} {unit}, worker has {has:g}", f"resources.{field} is at most {has:g}")

    return gate


def _python(specifier: str) -> Gate:
    def gate(worker: WorkerRecord) -> Refusal | None:
        found = worker.info.capabilities.python
        if versions.satisfies(found, specifier):
            return None
        return Refusal(f"python {found} does not satisfy {specifier}", f"resources.python allows {found}")

    return gate


def _framework(name: str, specifier: str) -> Gate:
    other = canonicalize_name(name)

    def gate(worker: WorkerRecord) -> Refusal | None:
        frameworks = worker.info.capabilities.frameworks
        found = frameworks.get(name) or frameworks.get(other)
        if found is None:
            return Refusal(f"needs {name} {specifier}".rstrip() + ", worker has none", f"it has {name} installed")
        if versions.satisfies(found, specifier):
            return None
        return Refusal(f"{name} {found} does not satisfy {specifier}", f"the job's resources allow {name} {found}")

    return gate


def _distributed(spec: DistributedJob) -> Iterator[Gate]:
    """Yield what torchrun and the collectives need; a world of one process runs without them."""
    if spec.world_size != 1:
        yield _launcher
        yield _backend(spec)
    if spec.num_workers > 1:
        yield _address


def _launcher(worker: WorkerRecord) -> Refusal | None:
    if worker.info.capabilities.launcher:
        return None
    return Refusal("has no torchrun launcher", "it has torch installed")


def _backend(spec: DistributedJob) -> Gate:
    either = spec.backend == "auto" and spec.resources.accelerator == "cuda"
    wanted = ("nccl", "gloo") if either else ("gloo",) if spec.backend == "auto" else (spec.backend,)

    def gate(worker: WorkerRecord) -> Refusal | None:
        if any(name in worker.info.capabilities.backends for name in wanted):
            return None
        return Refusal(f"has no {' or '.join(wanted)} backend", f"its torch has {' or '.join(wanted)}")

    return gate


def _address(worker: WorkerRecord) -> Refusal | None:
    if worker.info.capabilities.advertise_address:
        return None
    return Refusal("has no advertise_address, which more than one node needs", "it is started with --advertise-address")
