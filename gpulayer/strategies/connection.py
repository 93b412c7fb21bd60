"""Connects a Trainer at the caller: judges its arguments as Lightning would, then gives it the stand-ins."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

from gpulayer import settings
from gpulayer.client.options import JobOptions
from gpulayer.spec.job import DistributedJob, Processes
from gpulayer.strategies import names as lightning
from gpulayer.strategies import seam, session, validation
from gpulayer.strategies.caller import CallerStrategy, classes
from gpulayer.strategies.names import Names
from gpulayer.worker import nvml

_PENDING: ContextVar[JobOptions | None] = ContextVar("gpulayer_job_options", default=None)
_RESOURCES = {"cpu": "cpu", "cuda": "cuda", "gpu": "cuda", "mps": "mps"}


@contextlib.contextmanager
def job_options(options: JobOptions | None) -> Iterator[None]:
    """Give the Trainer that is made inside of the block these options."""
    token = _PENDING.set(options)
    try:
        yield
    finally:
        _PENDING.reset(token)


def connect(connector: Any, original: Callable[..., None], arguments: dict[str, Any], namespace: str) -> None:
    """Stand in for ``_AcceleratorConnector.__init__`` at the caller."""
    ordinal = seam.next_ordinal()  # before anything can fail: the job numbers it as well
    names = lightning.of(namespace)
    strategy = _strategy(arguments, names)
    options = _with_accelerator(strategy.options, arguments["accelerator"], strategy.inner, names)
    asked = validation.count_devices(arguments["devices"], _automatic(options), names.Misconfiguration)
    devices = 1 if asked == "auto" else asked
    inner = {**arguments, "strategy": strategy.inner}
    checked = validation.check(names, original, inner, devices, cuda=options.resources.accelerator == "cuda")
    strategy.options = options = _with_devices(options, asked)
    strategy.asked = asked
    DistributedJob(entrypoint="script", num_workers=arguments["num_nodes"], procs_per_worker=asked, resources=options.resources)
    stand_in = classes(namespace).accelerator()
    given = {**arguments, "accelerator": stand_in, "strategy": strategy, "devices": devices, "plugins": None, "precision": None}
    original(connector, **given)
    strategy.precision_plugin = connector.precision_plugin = checked.precision
    connector._layer_sync = strategy._layer_sync = checked.layer_sync
    if checked.checkpoint_io is not None:
        strategy.checkpoint_io = connector.checkpoint_io = checked.checkpoint_io
    strategy.ordinal = ordinal
    _quiet_device_report(namespace)
    session.current().expect(arguments["num_nodes"], options)


def _strategy(arguments: dict[str, Any], names: Names) -> Any:
    given = arguments["strategy"]
    if isinstance(given, CallerStrategy):
        strategy: Any = given
        strategy._accelerator = strategy._precision_plugin = strategy._checkpoint_io = None
    else:
        strategy = classes(names.namespace).strategy(strategy=given, job=_PENDING.get())
    # An environment of its own keeps Lightning from looking for a cluster (and failing on half of one) in os.environ.
    strategy.cluster_environment = names.LightningEnvironment()
    strategy.parallel_devices = None
    return strategy


def _with_accelerator(options: JobOptions, accelerator: Any, strategy: Any, names: Names) -> JobOptions:
    """Add what ``accelerator=`` beside our strategy, or a strategy that only knows CUDA, says of the resources."""
    word = accelerator if isinstance(accelerator, str) else accelerator.name()
    wanted = _RESOURCES.get(word)
    if wanted is None and options.resources.accelerator == "auto" and _is_fsdp(strategy, names):
        wanted = "cuda"
    if wanted is None:
        return options
    resources = options.resources.model_copy(update={"accelerator": wanted})
    return options.model_copy(update={"resources": resources})


def _is_fsdp(strategy: Any, names: Names) -> bool:
    if isinstance(strategy, str):
        return strategy in names.FSDPStrategy.get_registered_strategies()
    return isinstance(strategy, names.FSDPStrategy)


def _automatic(options: JobOptions) -> Processes:
    """Return what ``devices="auto"`` is: as many as GPUs were asked for, one without any, else for placement to say."""
    resources = options.resources
    if resources.gpu_count:
        return resources.gpu_count
    if resources.accelerator in ("cpu", "mps") or (resources.accelerator == "auto" and _stays_without_gpus(options)):
        return 1
    return "auto"


def _stays_without_gpus(options: JobOptions) -> bool:
    """Say whether the job can only run on this machine, which has no GPU for it: then it needs no torchrun."""
    found = settings.read()
    here = found.url is None and options.on(found).target == "local" and not options.fallback_targets
    return here and not nvml.visible(nvml.devices(), os.environ.get("CUDA_VISIBLE_DEVICES"))


def _with_devices(options: JobOptions, devices: Processes) -> JobOptions:
    """Ask for one GPU per process where GPUs are asked for without a number."""
    resources = options.resources
    if resources.accelerator != "cuda" or resources.gpu_count or devices == "auto":
        return options
    return options.model_copy(update={"resources": resources.model_copy(update={"gpu_count": devices})})


@functools.cache
def _quiet_device_report(namespace: str) -> None:
    """Keep Trainers of ours from reporting (and asking for) the devices of this machine."""
    names = lightning.of(namespace)
    original = names.setup._log_device_info

    @functools.wraps(original)
    def report(trainer: Any) -> None:
        if not isinstance(trainer.strategy, CallerStrategy):
            original(trainer)

    names.setup._log_device_info = report  # type: ignore[attr-defined]
