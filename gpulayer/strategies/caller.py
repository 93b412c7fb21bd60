"""What a Trainer is given at the caller: a stand-in accelerator and strategy, which never train."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from gpulayer.client.options import JobOptions, options_from
from gpulayer.errors import StaleModule
from gpulayer.spec.job import Processes
from gpulayer.strategies import failure
from gpulayer.strategies import names as lightning
from gpulayer.strategies.launcher import CallerLauncher
from gpulayer.strategies.names import Hooks, Names

_CPU = torch.device("cpu")
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


@dataclass(frozen=True)
class CallerClasses:
    """The stand-ins for one copy of Lightning, made from its base classes."""

    accelerator: type[Any]
    strategy: type[Any]
    launcher: type[Any]


class StandInAccelerator:
    """Devices of another place: as many as were asked for, none of them here."""

    @staticmethod
    def name() -> str:
        return lightning.ACCELERATOR

    @staticmethod
    def is_available() -> bool:
        return True

    @staticmethod
    def parse_devices(devices: int) -> int:
        return devices

    @staticmethod
    def get_parallel_devices(devices: int) -> list[torch.device]:
        return [_CPU] * devices

    @staticmethod
    def auto_device_count() -> int:
        return 1

    def setup_device(self, device: torch.device) -> None: ...

    def teardown(self) -> None: ...

    def get_device_stats(self, device: Any) -> dict[str, Any]:
        return {}


class CallerStrategy:
    """Carries the user's wishes to the job and answers at the caller as rank 0 of all ranks would.

    ``strategy`` is what trains in the job, ``job`` says where. The optimizers of a finished fit are rebuilt on first use.
    """

    gpulayer_wish = True
    names: Names
    hidden: Hooks | None
    options: JobOptions
    num_nodes: int
    parallel_devices: Any
    asked: Processes = 1
    """Processes per node as asked for; ``parallel_devices`` are as many as there are, once that is known."""
    job_id: str | None = None
    left: dict[str, Any] | None = None
    """What this Trainer's calls left with their jobs, by the jobs' ids; None before its first call has ended."""
    spelled: Mapping[str, str]
    """How the Trainer's objects name files that are not at the paths that a local run would have written to."""

    def __init__(self, strategy: Any = "auto", job: JobOptions | Mapping[str, Any] | None = None) -> None:
        self._owed: Callable[[], tuple[list[Any], list[Any]]] | None = None
        super().__init__()
        self.inner = strategy
        self.options = options_from(job)
        self.num_nodes = 1
        self.ordinal = -1
        self.spelled = {}
        self.hidden = None

    @property
    def root_device(self) -> torch.device:
        return _CPU

    @property
    def global_rank(self) -> int:
        return 0

    @property
    def local_rank(self) -> int:
        return 0

    @property
    def node_rank(self) -> int:
        return 0

    @property
    def is_global_zero(self) -> bool:
        return True

    @property
    def procs_per_worker(self) -> int:
        return len(self.parallel_devices or [_CPU])

    def placed(self, processes: int) -> None:
        """Take note of how many processes a node has: ``auto`` has become a number."""
        self.parallel_devices = [_CPU] * processes

    @property
    def world_size(self) -> int:
        return self.num_nodes * self.procs_per_worker

    @property
    def is_distributed(self) -> bool:
        return self.world_size > 1

    @property
    def distributed_sampler_kwargs(self) -> dict[str, Any]:
        return {"num_replicas": self.world_size, "rank": 0}

    def reduce(self, tensor: Any, *_: Any, **__: Any) -> Any:
        return tensor

    def reduce_boolean_decision(self, decision: bool, all: bool = True) -> bool:
        return decision

    def all_gather(self, tensor: Any, *_: Any, **__: Any) -> Any:
        return tensor

    def barrier(self, *_: Any, **__: Any) -> None: ...

    def broadcast(self, obj: Any, src: int = 0) -> Any:
        return obj

    def model_to_device(self) -> None: ...

    def owe_optimizers(self, make: Callable[[], tuple[list[Any], list[Any]]] | None) -> None:
        """Have optimizers and schedulers made by ``make`` when someone first looks at them."""
        self._owed = make

    def _pay(self) -> None:
        make, self._owed = self._owed, None
        if make is not None:
            try:
                self.optimizers, self.lr_scheduler_configs = make()
            except StaleModule:  # they are owed all the same
                self._owed = make
                raise

    @property
    def optimizers(self) -> list[Any]:
        self._pay()
        return self._optimizers

    @optimizers.setter
    def optimizers(self, optimizers: list[Any]) -> None:
        self._owed = None
        self.names.Strategy.optimizers.fset(self, optimizers)

    @property
    def _lightning_optimizers(self) -> list[Any]:
        self._pay()
        return self._wrapped

    @_lightning_optimizers.setter
    def _lightning_optimizers(self, wrapped: list[Any]) -> None:
        self._wrapped = wrapped

    @property
    def lr_scheduler_configs(self) -> list[Any]:
        self._pay()
        return self._configs

    @lr_scheduler_configs.setter
    def lr_scheduler_configs(self, configs: list[Any]) -> None:
        self._configs = configs

    _optimizers: list[Any]

    def _configure_launcher(self) -> None:
        self._launcher = classes(self.names.namespace).launcher(self)

    def on_exception(self, exception: BaseException) -> None:
        """Leave our own frames out of what the user reads."""
        failure.without_our_frames(exception, _OURS)

    def teardown(self) -> None:
        """Give a Trainer back the callbacks and loggers that were hidden while an error passed through it."""
        hidden, self.hidden = self.hidden, None
        if hidden is not None:
            lightning.show_hooks(hidden.trainer, hidden)


@functools.cache
def classes(namespace: str) -> CallerClasses:
    """Make the stand-ins from the base classes of one copy of Lightning."""
    names = lightning.of(namespace)
    strategy = type("GPULayerStrategy", (CallerStrategy, names.ParallelStrategy), {"names": names, "__module__": "gpulayer"})
    return CallerClasses(
        accelerator=type("GPULayerAccelerator", (StandInAccelerator, names.Accelerator), {}),
        strategy=strategy,
        launcher=type("CallerLauncher", (CallerLauncher, names.Launcher), {}),
    )
