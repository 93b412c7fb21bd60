"""What a person may say about the job that a Trainer's calls become."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from gpulayer.errors import InvalidCount, InvalidJob
from gpulayer.settings import Settings
from gpulayer.spec.base import Spec
from gpulayer.spec.job import Input
from gpulayer.spec.resources import Placement, Resources, Target

Fetch = Literal["all", "best", "last", "metrics"]


class JobOptions(Spec):
    """Where and how the job of a script runs; everything has a default that suits a first run on this machine.

    Without a ``target`` it is ``"local"`` on the plane of this machine, and ``"remote"`` where GPULAYER_URL names another.
    A local job inherits the environment that the caller started with; elsewhere it gets what is the machine's, and what is said
    here: ``env``, over the lines of ``env_file`` (a dotenv file at the caller), over the variables of the caller that
    ``forward_env`` names (``"LR"``, ``"WANDB_*"``). ``secrets`` names what the plane keeps. ``inputs`` are put into
    GPULAYER_INPUT_DIR: paths of the caller and ``gpulayer://`` travel with the job, the worker opens other URLs.
    ``requirements`` are packages that the job's Python has beside the worker's own, as pip reads them; ``requirements_file`` is
    a file of such lines at the caller, or a ``pylock.toml``. ``source_dir`` overrides the folder that is bundled.
    ``match="minor"`` asks for workers with the caller's Python, torch and Lightning minor versions, ``"none"`` for any.
    ``idle_limit_s`` is how long the ranks hold between two calls.
    ``show_ranks`` prints what every rank prints, as ``[rank3] ...``, instead of rank 0's lines from inside of calls.
    With ``detach`` a call returns None once its job is submitted, and the Trainer stays as it is; the job ends after that call,
    whatever becomes of this process, and ``gpulayer.attach`` brings it home. With ``resubmit`` a call whose job was broken off
    from outside (a lost machine, a signal, ``timeout_s``; no exception of the script's) is submitted so many times again, each
    time from the newest complete checkpoint of the job before, or from the start where it had none.
    ``fetch`` says what comes home after a call: ``"all"``, of the checkpoints only the ``"best"`` or the ``"last"``, or the
    ``"metrics"`` alone, without weights and checkpoints; the rest stays with the job until ``gpulayer.fetch(trainer)``. Outputs
    of more than ``fetch_limit`` bytes come as with ``"best"``.
    """

    target: Target | None = None
    fallback_targets: tuple[Target, ...] = ()
    workers: tuple[str, ...] = ()
    worker_labels: dict[str, str] = Field(default_factory=dict)
    resources: Resources = Field(default_factory=Resources)
    env: dict[str, str] = Field(default_factory=dict)
    env_file: str | None = None
    forward_env: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    requirements_file: str | None = None
    inputs: tuple[Input, ...] = ()
    name: str | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    priority: int = 50
    source_dir: str | None = None
    timeout_s: float | None = None
    queue_timeout_s: float | None = None
    rendezvous_timeout_s: float = 120.0
    grace_s: float = 30.0
    idle_limit_s: float = 60.0
    straggler_grace_s: float = 60.0
    caller_lease_s: float = 600.0
    match: Literal["minor", "none"] = "minor"
    on_unschedulable: Literal["fail", "queue"] = "fail"
    show_ranks: bool = False
    detach: bool = False
    resubmit: int = Field(default=0, ge=0)
    fetch: Fetch = "all"
    fetch_limit: int = Field(default=4_000_000_000, gt=0)

    @model_validator(mode="before")
    @classmethod
    def _known(cls, given: Any) -> Any:
        unknown = sorted(set(given) - set(cls.model_fields)) if isinstance(given, Mapping) else []
        if unknown:
            raise InvalidJob(
                f"JobOptions has no {', '.join(map(repr, unknown))}.", next_step=f"It has: {', '.join(cls.model_fields)}."
            )
        return given

    @model_validator(mode="wrap")
    @classmethod
    def _in_words(cls, given: Any, make: Callable[[Any], JobOptions]) -> JobOptions:
        try:
            return make(given)
        except ValidationError as cause:
            raise InvalidJob(" ".join(map(_what_is_wrong, cause.errors(include_url=False)))) from None

    @model_validator(mode="after")
    def _somebody_submits(self) -> JobOptions:
        if self.detach and self.resubmit:
            raise InvalidJob("JobOptions(detach=True, resubmit=...) is not possible: only a process that waits submits again.")
        return self

    @field_validator("source_dir", "env_file", "requirements_file", mode="before")
    @classmethod
    def _text(cls, value: Any) -> Any:
        return value if value is None else str(value)

    @field_validator("idle_limit_s", "straggler_grace_s", "caller_lease_s")
    @classmethod
    def _positive(cls, value: float) -> float:
        if value <= 0:
            raise InvalidCount(f"A time limit is {value}.")
        return value

    @property
    def of_job(self) -> JobOptions:
        """The options that make a job another one: what comes home from it concerns its caller alone."""
        return self.model_copy(update={name: type(self).model_fields[name].default for name in ("fetch", "fetch_limit")})

    def on(self, found: Settings) -> JobOptions:
        """Return the options with the target that an unset one means on the plane of these settings."""
        return self if self.target is not None else self.model_copy(update={"target": default_target(found)})

    def placement(self, target: Target) -> Placement:
        return Placement(target=target, fallback_targets=self.fallback_targets, workers=self.workers, labels=self.worker_labels)


def _what_is_wrong(error: Mapping[str, Any]) -> str:
    """Name an option, the value that it was given, and what it may be."""
    option = ".".join(map(str, error["loc"]))
    may_be = error.get("ctx", {}).get("expected") or str(error["msg"]).removeprefix("Input should be ")
    return f"JobOptions({option}={error['input']!r}) is not possible: it may be {may_be}."


def default_target(found: Settings) -> Target:
    """Return where a job runs that doesn't say it: here, or on the workers of the self-hosted plane that is named."""
    return "local" if found.url is None else "remote"


def options_from(value: JobOptions | Mapping[str, Any] | None) -> JobOptions:
    """Take options as they are, as a dictionary, or the defaults."""
    if value is None:
        return JobOptions()
    if not isinstance(value, JobOptions | Mapping):
        raise InvalidJob(f"job={value!r} is not possible: it may be JobOptions, or a dictionary of its options.")
    return value if isinstance(value, JobOptions) else JobOptions(**value)
