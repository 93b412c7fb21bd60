"""What Lightning would have refused, refused at the caller before anything is sent."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

import torch

from gpulayer.errors import InvalidJob
from gpulayer.spec.job import Processes
from gpulayer.strategies.names import Names

_TAKEN: WeakSet[Any] = WeakSet()
"""The strategies of the user's that Trainers have."""


@dataclass(frozen=True)
class Checked:
    """What Lightning's own connector made of the user's arguments."""

    precision: Any
    checkpoint_io: Any
    layer_sync: Any


def count_devices(devices: Any, automatic: Processes, misconfiguration: type[Exception]) -> Processes:
    """Return the number of processes per node that ``devices`` asks for; ``automatic`` answers "auto" and -1."""
    refuse = misconfiguration(
        f"`Trainer(devices={devices!r})` value is not a valid input using the gpulayer accelerator: give the number of"
        " processes per node, or 'auto'."
    )
    if isinstance(devices, str):
        devices = _from_text(devices)
    if devices in ("auto", -1):
        return automatic
    if isinstance(devices, list | tuple):
        if not devices or list(devices) != list(range(len(devices))):
            raise misconfiguration(
                f"`Trainer(devices={list(devices)!r})` names devices; a job takes them by count. Give a number, and choose"
                " among this machine's with CUDA_VISIBLE_DEVICES."
            )
        return len(devices)
    if isinstance(devices, bool) or not isinstance(devices, int) or devices < 1:
        raise refuse
    return devices


def _from_text(text: str) -> Any:
    text = text.strip()
    try:
        if "," in text:
            return [int(part) for part in text.split(",") if part.strip()]
        return int(text)
    except ValueError:
        return text


def check_call(function: str, max_epochs: Any) -> None:
    """Refuse what Lightning's loop would stumble over in the job, with an assertion that has no words."""
    if function == "fit" and max_epochs is not None and not isinstance(max_epochs, int):
        raise InvalidJob(
            f"Trainer(max_epochs={max_epochs!r}) is not a number of epochs.",
            next_step="Give a whole number, or -1 for no limit.",
        )


def check(names: Names, original: Callable[..., None], arguments: dict[str, Any], devices: int, cuda: bool) -> Checked:
    """Let a throw-away connector of Lightning judge strategy, precision and plugins for a run on CPU or CUDA.

    It never asks for a CUDA device, reads no cluster from the environment and starts no launcher.
    """
    probe = _probe_class(names, devices, cuda)()
    strategy = arguments["strategy"]
    _take(strategy, names)
    judged = {
        **arguments,
        "accelerator": "cuda" if cuda else "cpu",
        "devices": devices,
        "strategy": strategy if isinstance(strategy, str) else _copy(strategy),
    }
    with warnings.catch_warnings():
        # What it warns of (AMP on a CPU, no CUDA here) concerns this machine, not the one that the job will run on.
        warnings.simplefilter("ignore")
        original(probe, **judged)
    return Checked(probe.precision_plugin, probe.checkpoint_io, probe._layer_sync)


def _take(strategy: Any, names: Names) -> None:
    """Refuse a strategy that another Trainer has, as Lightning does in the job, where the first one's binds it."""
    if isinstance(strategy, str):
        return
    if strategy in _TAKEN:
        raise names.Misconfiguration(
            "accelerator set through both strategy class and accelerator flag, choose one: this "
            f"{type(strategy).__name__} is another Trainer's already. Make one for each Trainer."
        )
    _TAKEN.add(strategy)


def _copy(strategy: Any) -> Any:
    """A shallow copy, so that the user's own strategy isn't bound to the throw-away connector."""
    copied = object.__new__(type(strategy))
    copied.__dict__.update(strategy.__dict__)
    return copied


def _probe_class(names: Names, devices: int, cuda: bool) -> type[Any]:
    """Make a connector that judges a choice of devices without looking for them."""

    def accelerator(self: Any) -> None:
        self.accelerator = _any_cuda(names)() if cuda else names.AcceleratorRegistry.get("cpu")
        self._devices_flag = devices
        self._parallel_devices = [torch.device("cuda", index) if cuda else torch.device("cpu") for index in range(devices)]

    def cluster(self: Any) -> Any:
        flag = self._cluster_environment_flag
        return flag if isinstance(flag, names.ClusterEnvironment) else names.LightningEnvironment()

    body = {
        "__init__": lambda self: None,
        "_set_parallel_devices_and_init_accelerator": accelerator,
        "_choose_and_init_cluster_environment": cluster,
        "_lazy_init_strategy": lambda self: None,
    }
    return type("Probe", (names.Connector,), body)


def _any_cuda(names: Names) -> type[Any]:
    return type("AnyCUDA", (names.CUDAAccelerator,), {"is_available": staticmethod(lambda: True)})
