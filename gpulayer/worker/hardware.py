"""What this machine and its Python can do, found without importing torch."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from gpulayer.spec.workers import Capabilities
from gpulayer.worker import nvml
from gpulayer.worker.addresses import LOOPBACK, interface_of

_FRAMEWORKS = ("torch", "lightning", "pytorch-lightning", "jax", "mlx", "cupy", "tensorflow", "torchmetrics")
_GB = 1e9


def capabilities(home: Path, environ: Mapping[str, str], advertise_address: str | None = LOOPBACK) -> Capabilities:
    """Describe this machine; ``environ`` is the caller's, whose CUDA_VISIBLE_DEVICES narrows what may be leased."""
    frameworks = _frameworks()
    devices = nvml.visible(nvml.devices(), environ.get("CUDA_VISIBLE_DEVICES"))
    torch = "torch" in frameworks
    return Capabilities(
        machine=machine_id(),
        hostname=socket.gethostname(),
        os=platform.system().lower(),
        arch=platform.machine(),
        python=platform.python_version(),
        executable=sys.executable,
        cpus=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        memory_gb=round(_memory() / _GB, 3),
        disk_gb=round(_disk(home) / _GB, 3),
        frameworks=frameworks,
        devices=devices,
        backends=(("gloo", "nccl") if devices else ("gloo",)) if torch else (),
        launcher=torch,
        advertise_address=advertise_address,
        interface=None if advertise_address is None else interface_of(advertise_address),
    )


def machine_id() -> str:
    """Name the machine or container; the same for all its processes, another one after a reboot of a container."""
    parts = [socket.gethostname()]
    for path in ("/etc/machine-id", "/proc/sys/kernel/random/boot_id"):
        try:
            parts.append(Path(path).read_text().strip())
        except OSError:
            continue
    with suppress(OSError):
        parts.append(os.readlink("/proc/self/ns/pid"))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _frameworks() -> dict[str, str]:
    found = {}
    for name in _FRAMEWORKS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _memory() -> float:
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def _disk(home: Path) -> float:
    folder = next((path for path in (home, *home.parents) if path.exists()), Path("/"))
    return float(shutil.disk_usage(folder).free)
