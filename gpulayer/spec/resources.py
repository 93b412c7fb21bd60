"""What a job needs of each worker, and where it may be placed."""

from __future__ import annotations

from typing import Literal

from packaging.specifiers import InvalidSpecifier as _BadSpecifier
from packaging.specifiers import SpecifierSet
from pydantic import Field, model_validator

from gpulayer.errors import InvalidCount, InvalidSpecifier
from gpulayer.spec.base import Spec

AcceleratorName = Literal["auto", "cpu", "cuda", "mps"]
Target = Literal["local", "remote", "cloud"]


class Resources(Spec):
    """Needs of one worker. Memory and disk are in GB (1e9 bytes); versions are PEP 440 specifiers."""

    accelerator: AcceleratorName = "auto"
    gpu_count: int = 0
    gpu_memory_gb: float | None = None
    gpu_model: str | None = None
    cpus: float | None = None
    memory_gb: float | None = None
    disk_gb: float | None = None
    python: str | None = None
    torch: str | None = None
    frameworks: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _values_make_sense(self) -> Resources:
        if self.gpu_count < 0:
            raise InvalidCount(f"gpu_count is {self.gpu_count}.", field="gpu_count")
        for field in ("gpu_memory_gb", "cpus", "memory_gb", "disk_gb"):
            value = getattr(self, field)
            if value is not None and value <= 0:
                raise InvalidCount(f"{field} is {value}.", field=field)
        for field, text in {"python": self.python, "torch": self.torch, **self.frameworks}.items():
            try:
                SpecifierSet(text or "")
            except _BadSpecifier as cause:
                raise InvalidSpecifier(f"The version of {field} reads {text!r}.", field=field) from cause
        return self


class Placement(Spec):
    """Where a job may run. ``workers`` (ids or names) and ``labels`` narrow the choice."""

    target: Target = "local"
    fallback_targets: tuple[Target, ...] = ()
    workers: tuple[str, ...] = ()
    labels: dict[str, str] = Field(default_factory=dict)
