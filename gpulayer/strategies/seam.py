"""The one place where Lightning is patched: its accelerator connector, and only for Trainers that ask for GPUlayer."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

from gpulayer.strategies import hydra_runs, names, random_start

_MARK = "_gpulayer_original"
_CALLER = "gpulayer.strategies.connection"
_IN_JOB = "gpulayer.strategies.in_job"


def attach(module: ModuleType, namespace: str) -> None:
    """Wrap the connector's constructor and register the accelerator's name, once per copy of Lightning."""
    random_start.note_numpy()
    connector = module._AcceleratorConnector
    original = connector.__init__
    if hasattr(original, _MARK):
        return
    signature = inspect.signature(original)

    @functools.wraps(original)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        arguments = dict(list(bound.arguments.items())[1:])
        if not is_ours(arguments):
            original(self, *args, **kwargs)
        else:
            _connect(self, original, arguments, namespace)

    setattr(wrapped, _MARK, original)
    connector.__init__ = wrapped
    registry = module.AcceleratorRegistry
    if names.ACCELERATOR not in registry:
        registry.register(names.ACCELERATOR, _named_accelerator(module.Accelerator), description="GPUlayer")


def original_of(connector: type[Any]) -> Callable[..., None]:
    """Return Lightning's own constructor of a connector class, wrapped or not."""
    init = connector.__dict__.get("__init__") or connector.__init__
    return getattr(init, _MARK, init)  # type: ignore[no-any-return]


def is_ours(arguments: dict[str, Any]) -> bool:
    """Say whether a Trainer asks for GPUlayer, by the accelerator's name or with our strategy."""
    return arguments.get("accelerator") == names.ACCELERATOR or hasattr(arguments.get("strategy"), "gpulayer_wish")


def _connect(connector: Any, original: Callable[..., None], arguments: dict[str, Any], namespace: str) -> None:
    from gpulayer.runtime import context

    names.check(names.version_of(namespace))
    if context.current() is None:
        importlib.import_module(_CALLER).connect(connector, original, arguments, namespace)
        return
    in_job = importlib.import_module(_IN_JOB)
    ordinal = -1 if in_job.in_call() else next_ordinal()
    in_job.connect(connector, original, arguments, ordinal)


class _Ordinals:
    def __init__(self) -> None:
        self.next = 0
        self.run: object = None


_ORDINALS = _Ordinals()


def next_ordinal() -> int:
    """Number the Trainers of a process by construction: the same script numbers them alike at the caller and in the job.

    Each run of hydra counts for itself, as it is a job of its own.
    """
    run = hydra_runs.current()
    if run != _ORDINALS.run:
        _ORDINALS.run, _ORDINALS.next = run, 0
    _ORDINALS.next += 1
    return _ORDINALS.next - 1


def _named_accelerator(base: type[Any]) -> type[Any]:
    """Return what the registry holds under our name: nobody makes one, error lists and LightningCLI read the name."""

    def unused(*_: Any, **__: Any) -> Any:
        raise NotImplementedError

    body = {
        "__doc__": "The name of GPUlayer in Lightning's registry.",
        "setup_device": unused,
        "teardown": unused,
        "parse_devices": staticmethod(lambda devices: devices),
        "get_parallel_devices": staticmethod(lambda devices: []),
        "auto_device_count": staticmethod(lambda: 1),
        "is_available": staticmethod(lambda: True),
        "name": staticmethod(lambda: names.ACCELERATOR),
    }
    return type("GPULayerAccelerator", (base,), body)
