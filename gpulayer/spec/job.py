"""The three kinds of job that a person can ask for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from packaging.requirements import InvalidRequirement as _Unreadable
from packaging.requirements import Requirement
from pydantic import Field, TypeAdapter, model_validator

from gpulayer.errors import (
    DistributedMPS,
    DistributedRetries,
    EntrypointMissing,
    InvalidCount,
    InvalidEnvName,
    InvalidFunctionValue,
    InvalidJob,
    InvalidRequirement,
    MoreProcsThanGpus,
    NcclWithoutCuda,
)
from gpulayer.spec.base import DEFERRED, Spec
from gpulayer.spec.files import FileEntry
from gpulayer.spec.resources import Placement, Resources

BackendName = Literal["auto", "gloo", "nccl"]
Processes = int | Literal["auto"]
"""How many run on each worker; ``auto`` becomes a number at placement: the most devices that every chosen worker can give."""
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_LONGEST_S = 10 * 365 * 24 * 3600.0
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*\Z")


class Input(Spec):
    """A file or folder put at ``path`` below GPULAYER_INPUT_DIR before the job starts.

    ``uri`` is any fsspec URL, or a path of the submitter's machine. ``entries`` is what the submitter stored of it, by path
    below ``path`` (empty for a file by itself); None where the worker opens the ``uri``.
    """

    uri: str
    path: str
    entries: tuple[FileEntry, ...] | None = None


class Rendezvous(Spec):
    """Where ranks meet: rank 0's worker picks a free port unless ``port`` is given."""

    port: int | None = None


class Calls(Spec):
    """Makes a job the other half of a script whose Trainer calls advance in lockstep with a caller.

    ``root`` and ``cwd`` are the caller's absolute paths that the job's work folder stands for: a path below ``root`` is
    the same path below the work folder, any other absolute path ``/x`` is ``abs/x`` there. ``half`` names the module inside
    the job that meets the calls. ``settings`` is the digest of a blob that the half reads before the script begins.
    ``files`` lie in the work folder when it begins, beside the source: what the script's jobs before this one left.
    ``import_folders``, relative to ``root``, are those that the caller's Python imports from before it runs anything.
    """

    root: str
    cwd: str
    half: str = "gpulayer.strategies.in_job"
    idle_limit_s: float = 60.0
    straggler_grace_s: float = 60.0
    caller_lease_s: float = 600.0
    settings: str | None = None
    files: tuple[FileEntry, ...] = ()
    import_folders: tuple[str, ...] = ()


class JobBase(Spec):
    """What all kinds have in common. Times are seconds; ``timeout_s`` counts from ``running``."""

    name: str | None = None
    env: dict[str, str] = Field(default_factory=dict)
    forward_env: tuple[str, ...] = ()
    """Names, or patterns of names, that the submitter put into ``env`` from its own environment."""
    secrets: tuple[str, ...] = ()
    """Names of the plane's secrets that the job's processes get as environment variables."""
    timeout_s: float | None = None
    queue_timeout_s: float | None = None
    priority: int = 50
    labels: dict[str, str] = Field(default_factory=dict)
    inputs: tuple[Input, ...] = ()
    requirements: tuple[str, ...] = ()
    """Packages that the job's Python has beside the worker's own, as pip reads them; with ``--hash`` where they are locked."""
    source: str | None = None
    """SHA-256 of the bundle."""
    left_out: str | None = None
    """Digest of the blob that lists what the bundle left out, and by which rule."""
    source_root: str | None = None
    """The folder that was bundled, at the submitter: on local targets, left-out entries appear as links to it."""
    cwd: str = "."
    """Working directory in the job, relative to the unpacked bundle."""
    resources: Resources = Field(default_factory=Resources)
    placement: Placement = Field(default_factory=Placement)
    on_unschedulable: Literal["fail", "queue"] = "fail"
    max_attempts: int = 1
    grace_s: float = 30.0
    calls: Calls | None = None
    rendezvous_timeout_s: float = 120.0

    @model_validator(mode="after")
    def _counts_and_names(self) -> JobBase:
        for field in ("timeout_s", "queue_timeout_s", "max_attempts", "rendezvous_timeout_s"):
            value = getattr(self, field)
            if value is not None and value <= 0:
                raise InvalidCount(f"{field} is {value}.", field=field)
        if self.grace_s < 0:
            raise InvalidCount(f"grace_s is {self.grace_s}.", next_step="Give zero or more.", field="grace_s")
        for field in ("timeout_s", "queue_timeout_s", "rendezvous_timeout_s", "grace_s"):
            value = getattr(self, field)
            if value is not None and not value <= _LONGEST_S:  # not a number is not less either
                raise InvalidCount(f"{field} is {value}.", next_step="Give at most ten years.", field=field)
        if not 0 <= self.priority <= 100:
            raise InvalidCount(f"priority is {self.priority}.", next_step="Give 0 to 100.", field="priority")
        for name in (*self.env, *self.secrets):
            if not _ENV_NAME.match(name):
                raise InvalidEnvName(f"{name!r} can't name an environment variable.", name=name)
        for line in self.requirements:
            _refuse_no_requirement(line)
        _refuse_nul("env", self.env.values())
        _refuse_nul("name", (self.name or "",))
        return self


def _refuse_no_requirement(line: str) -> None:
    try:
        Requirement(line.partition(" --hash")[0])
    except _Unreadable as cause:
        reason = str(cause).splitlines()[0]
        raise InvalidRequirement(f"{line!r} is no requirement: {reason}.", requirement=line) from cause
    if "\n" in line or "\r" in line:
        raise InvalidRequirement(f"{line!r} is more than one line.", requirement=line)


def _refuse_nul(field: str, texts: Iterable[str]) -> None:
    """No program can be given a NUL."""
    if any("\0" in text for text in texts):
        raise InvalidJob(f"There is a NUL character in {field}.", next_step="Leave it out.", field=field)


class CommandJob(JobBase):
    """One process tree on one worker, started from an argument vector."""

    kind: Literal["command"] = "command"
    command: tuple[str, ...]

    @model_validator(mode="after")
    def _has_a_command(self) -> CommandJob:
        if not self.command or not self.command[0]:
            raise EntrypointMissing("The command is empty.", next_step="Give a program and its arguments.")
        _refuse_nul("command", self.command)
        return self


class FunctionJob(JobBase):
    """``module:function(*args, **kwargs)`` on one worker; JSON in, JSON out (ADR-0002).

    ``script`` is a path below ``cwd`` whose own functions are named as ``__main__:function``. It is loaded up to its first
    call of a remote function, with its main guard closed.
    """

    kind: Literal["function"] = "function"
    function: str
    script: str | None = None
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _names_a_function(self) -> FunctionJob:
        if not _FUNCTION.match(self.function):
            raise InvalidFunctionValue(f"{self.function!r} doesn't name a function.", function=self.function)
        return self


class DistributedJob(JobBase):
    """``procs_per_worker`` processes on each of ``num_workers`` workers, started by torchrun.

    Node rank r hosts global ranks [r*P, (r+1)*P). ``entrypoint`` is a script inside the bundle, ``-m package.module``,
    ``module:function``, or ``--console module:function`` for the script of an installed command, whose name is then the first
    of ``args``. ``auto`` processes are one for each CUDA device that every worker of the gang can give, and one where
    it runs without them. Once a rank has ended, the others may stand still for ``straggler_grace_s``.
    """

    kind: Literal["distributed"] = "distributed"
    entrypoint: str
    args: tuple[str, ...] = ()
    num_workers: int = 1
    procs_per_worker: Processes = 1
    backend: BackendName = "auto"
    rendezvous: Rendezvous = Field(default_factory=Rendezvous)
    straggler_grace_s: float = 60.0

    @property
    def world_size(self) -> int | None:
        """How many ranks it has; None where placement decides."""
        return None if self.procs_per_worker == "auto" else self.num_workers * self.procs_per_worker

    @model_validator(mode="after")
    def _can_be_distributed(self) -> DistributedJob:
        for field in ("num_workers", "procs_per_worker"):
            count = getattr(self, field)
            if count != "auto" and count < 1:
                raise InvalidCount(f"{field} is {count}.", field=field)
        if self.straggler_grace_s <= 0:
            raise InvalidCount(f"straggler_grace_s is {self.straggler_grace_s}.", field="straggler_grace_s")
        if not self.entrypoint.strip():
            raise EntrypointMissing("The entry point is empty.")
        _refuse_nul("args", self.args)
        need = self.resources
        least = self.world_size or self.num_workers
        if need.accelerator == "mps" and least > 1:
            raise DistributedMPS(f"MPS can't run {least} processes together.", world_size=least)
        if self.backend == "nccl" and need.accelerator != "cuda":
            raise NcclWithoutCuda(f"backend is nccl and the accelerator is {need.accelerator}.", accelerator=need.accelerator)
        if need.accelerator == "cuda" and self.procs_per_worker != "auto" and self.procs_per_worker > need.gpu_count:
            raise MoreProcsThanGpus(
                f"{self.procs_per_worker} processes per worker need as many GPUs; gpu_count is {need.gpu_count}.",
                procs_per_worker=self.procs_per_worker,
                gpu_count=need.gpu_count,
            )
        if self.max_attempts != 1:
            raise DistributedRetries(
                f"A DistributedJob is never retried by itself; max_attempts is {self.max_attempts}.",
                max_attempts=self.max_attempts,
            )
        return self


Job = Annotated[CommandJob | FunctionJob | DistributedJob, Field(discriminator="kind")]
_ADAPTER: TypeAdapter[CommandJob | FunctionJob | DistributedJob] = TypeAdapter(Job, config=DEFERRED)


def parse_job(data: dict[str, Any] | str | bytes) -> CommandJob | FunctionJob | DistributedJob:
    """Read a job spec from plain data or JSON."""
    return _ADAPTER.validate_python(data) if isinstance(data, dict) else _ADAPTER.validate_json(data)


def shape(job: CommandJob | FunctionJob | DistributedJob) -> tuple[int, Processes]:
    """Return (workers, processes per worker)."""
    return (job.num_workers, job.procs_per_worker) if isinstance(job, DistributedJob) else (1, 1)
