"""What a worker says of itself when it registers."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpulayer.spec.base import Record

Origin = Literal["local", "existing", "provider"]


class Device(Record):
    """One accelerator. ``uuid`` is unique on its machine; memory is in GB."""

    uuid: str
    kind: Literal["cuda", "mps"]
    index: int
    name: str = ""
    memory_gb: float | None = None
    compute_capability: str | None = None


class Capabilities(Record):
    """What a worker can do. ``frameworks`` maps distribution names (torch, lightning, jax, ...) to installed versions."""

    machine: str
    """Stable id of the machine (or container), the same for all workers on it."""
    hostname: str = ""
    os: str = ""
    arch: str = ""
    python: str = ""
    executable: str = ""
    cpus: int = 1
    memory_gb: float = 0.0
    disk_gb: float = 0.0
    frameworks: dict[str, str] = Field(default_factory=dict)
    devices: tuple[Device, ...] = ()
    backends: tuple[str, ...] = ()
    """torch.distributed backends: gloo, nccl."""
    launcher: bool = False
    """Whether torchrun can be started here."""
    advertise_address: str | None = None
    interface: str | None = None


class WorkerInfo(Record):
    """A registration. A worker with an ``owner`` (the process that started it) takes only that owner's jobs."""

    id: str
    name: str
    origin: Origin = "local"
    owner: str | None = None
    process: str | None = None
    """The id of the process that hosts it, whose lock says whether it lives (embedded homes)."""
    labels: dict[str, str] = Field(default_factory=dict)
    slots: int = 1
    incarnation: str = ""
    capabilities: Capabilities


TARGET_OF: dict[str, str] = {"local": "local", "existing": "remote", "provider": "cloud"}
"""The target that each origin serves."""
