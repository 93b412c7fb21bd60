"""What kinds of Python object an outcome knows, and which attributes of them are nobody's business."""

from __future__ import annotations

import collections
import contextlib
import copyreg
import datetime
import decimal
import enum
import fractions
import functools
import pathlib
import random
import re
import types
import uuid
import weakref
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy
import torch

from gpulayer.client.raising import find as find

_T = TypeVar("_T")

ATOMS = (
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    type(None),
    type(...),
    type(NotImplemented),
    range,
    slice,
    decimal.Decimal,
    fractions.Fraction,
    uuid.UUID,
    datetime.date,
    datetime.time,
    datetime.timedelta,
    datetime.timezone,
    enum.Enum,
    pathlib.PurePath,
    re.Pattern,
    numpy.generic,
    numpy.dtype,
    torch.dtype,
    torch.device,
    torch.Size,
    torch.layout,
    torch.memory_format,
)
"""Values without an identity that matters: compared by value, replaced rather than changed."""

LIGHTNING = ("lightning", "pytorch_lightning", "lightning_fabric", "lightning_utilities")
LIBRARIES = (*LIGHTNING, "torch", "torchmetrics", "torchvision", "numpy")
"""Packages whose own objects may lose an inner attribute on the way without a word to the user."""

CLOSED = (
    ".strategies.",
    ".accelerators.",
    ".plugins.",
    ".trainer.connectors.accelerator_connector",
    ".trainer.connectors.data_connector",
    ".trainer.connectors.signal_connector",
    ".trainer.connectors.callback_connector",
    ".trainer.connectors.logger_connector.result",
    ".trainer.connectors.logger_connector.fx_validator",
    ".loops.fetchers",
    ".utilities.combined_loader",
    ".callbacks.progress.",
)
CLOSED_BASES = ("Strategy", "Accelerator")
CLOSED_TORCH = ("torch.distributed", "torch._", "torch.jit", "torch.utils.tensorboard", "torch.nn.parallel", "torch.fx")
CLOSED_ROOTS = frozenset(
    {
        *(
            "threading",
            "_thread",
            "socket",
            "ssl",
            "io",
            "_io",
            "logging",
            "asyncio",
            "subprocess",
            "multiprocessing",
            "inspect",
        ),
        *("concurrent", "select", "selectors", "tempfile", "sqlite3", "importlib", "ast", "tokenize", "traceback", "linecache"),
        *("gpulayer", "rich", "tqdm", "tensorboard", "tensorboardX", "fsspec", "wandb", "mlflow", "matplotlib", "jsonargparse"),
        *("omegaconf", "hydra", "click", "pytest", "_pytest", "pluggy", "unittest", "IPython", "ipykernel", "pkg_resources"),
    }
)
_MODULE_LINKS = frozenset(
    {"_trainer", "_fabric", "_fabric_optimizers", "_metric_attributes", "_jit_is_scripting", "_device_mesh"}
)
_LOOP_LINKS = frozenset(
    {
        "trainer",
        "_data_source",
        "_combined_loader",
        "_combined_loader_states_to_load",
        "_data_fetcher",
        "_results",
        "_warning_cache",
        "_predictions",
        "epoch_batch_indices",
        "current_batch_indices",
    }
)
LEFT_ALONE = {
    "LightningModule": _MODULE_LINKS,
    "LightningDataModule": frozenset({"trainer"}),
    "Callback": frozenset({"log", "log_dict"}),
    "_Loop": _LOOP_LINKS,
    "_LoggerConnector": frozenset({"trainer", "_logged_results"}),
    "_CheckpointConnector": frozenset({"trainer", "_loaded_checkpoint"}),
    "Profiler": frozenset({"_output_file", "_write_stream", "profiler", "_lightning_module"}),
    "TensorBoardLogger": frozenset({"_experiment", "_fs"}),
    "DataLoader": frozenset({"_iterator"}),
}
"""By the name of a base class: links between objects, which are made anew, and live things of this process."""

UNLINKED: dict[str, dict[str, Any]] = {
    "LightningModule": {"_trainer": None, "_fabric": None, "_metric_attributes": None, "_device_mesh": None},
    "LightningDataModule": {"trainer": None},
}
"""What an object that a call made has of those attributes before anything is linked to it."""


def cached(answer: Callable[[type[Any]], _T]) -> Callable[[type[Any]], _T]:
    """``functools.cache`` for questions about classes, which type checkers don't take for hashable."""
    return cast(Callable[[type[Any]], _T], functools.cache(answer))


@cached
def skipped(cls: type[Any]) -> frozenset[str]:
    """Return the attributes of a class's objects that an outcome leaves alone."""
    names: frozenset[str] = frozenset()
    for base in cls.__mro__:
        if base.__module__.partition(".")[0] in (*LIGHTNING, "torch"):
            names |= LEFT_ALONE.get(base.__name__, frozenset())
    return names


def unlinked(cls: type[Any]) -> dict[str, Any]:
    """Return the attributes left alone that an object of a class can't do without, as they are in a new one."""
    bases = [base.__name__ for base in cls.__mro__ if base.__module__.partition(".")[0] in LIGHTNING]
    found = {name: value for base in bases for name, value in UNLINKED.get(base, {}).items()}
    return {**found, "_fabric_optimizers": []} if "LightningModule" in bases else found


@cached
def closed(cls: type[Any]) -> bool:
    """Say whether objects of a class are machinery of this process that nobody looks into."""
    module = cls.__module__
    root = module.partition(".")[0]
    if root in LIGHTNING:
        return any(part in f"{module}." for part in CLOSED)
    if root == "torch":
        return module.startswith(CLOSED_TORCH) or issubclass(cls, torch.nn.parallel.DistributedDataParallel)
    # A strategy or accelerator of the user's own is as much machinery as Lightning's; gpulayer.Trainer is Lightning's, and not.
    return _is_of_lightning(cls, CLOSED_BASES) or (root in CLOSED_ROOTS and not _is_of_lightning(cls, ("Trainer",)))


def _is_of_lightning(cls: type[Any], names: tuple[str, ...]) -> bool:
    return any(base.__name__ in names and base.__module__.partition(".")[0] in LIGHTNING for base in cls.__mro__)


def quiet(cls: type[Any]) -> bool:
    """Say whether a class is a library's own, so that what its objects lose is not the user's concern."""
    return cls.__module__.partition(".")[0] in LIBRARIES or any(base.__name__ == "ProgressBar" for base in cls.__mro__)


class Kind(enum.Enum):
    """How an object is looked at, carried and changed in place."""

    ATOM = "atom"
    LIST = "list"
    DICT = "dict"
    SET = "set"
    TENSOR = "tensor"
    ARRAY = "array"
    GENERATOR = "generator"
    FUNCTION = "function"
    METHOD = "method"
    CLASS = "class"
    MODULE = "module"
    OBJECT = "object"
    OPAQUE = "opaque"


HOW: dict[Kind, str] = {
    Kind.ATOM: "Replaced by the job's value.",
    Kind.LIST: "Refilled in place, so that other names for it hold; a tuple is made anew.",
    Kind.DICT: "Refilled in place, in the job's order; an entry that can't travel stays the caller's and is named.",
    Kind.SET: "Refilled in place; a frozenset is made anew.",
    Kind.TENSOR: "Copied in place: values, shape, dtype, `requires_grad`. Meta and lazy tensors get their values.",
    Kind.ARRAY: "Copied in place, resized where the shape changed.",
    Kind.GENERATOR: "Goes on from the state that it had in the job.",
    Kind.FUNCTION: "The caller's own; what a call changed in its closure comes back.",
    Kind.METHOD: "Found again on the object that it is bound to.",
    Kind.CLASS: "Found again by its name; changed class attributes come back if the script or its modules define it.",
    Kind.MODULE: "Globals that a call changed come back, of `__main__` and of modules in the source folder.",
    Kind.OBJECT: "The object stays; changed attributes come back, slots and the items of a list, dict or set class as well.",
    Kind.OPAQUE: "Stays as it is; where a call put another one there, the warning names it.",
}
"""How each kind comes back: the reference page tells it in these words."""

_BY_TYPE: dict[type[Any], Kind] = {
    list: Kind.LIST,
    tuple: Kind.LIST,
    collections.deque: Kind.LIST,
    dict: Kind.DICT,
    collections.OrderedDict: Kind.DICT,
    collections.defaultdict: Kind.DICT,
    set: Kind.SET,
    frozenset: Kind.SET,
    bytearray: Kind.ARRAY,
    types.FunctionType: Kind.FUNCTION,
    types.MethodType: Kind.METHOD,
    types.ModuleType: Kind.MODULE,
    random.Random: Kind.GENERATOR,
    torch.Generator: Kind.GENERATOR,
    numpy.random.Generator: Kind.GENERATOR,
    numpy.random.RandomState: Kind.GENERATOR,
    weakref.ProxyType: Kind.OPAQUE,
    weakref.CallableProxyType: Kind.OPAQUE,
    weakref.ReferenceType: Kind.OPAQUE,
}


def types_of(kind: Kind) -> tuple[type[Any], ...]:
    """Return the types that are of a kind by name; what derives from them or from nothing is told by ``kind_of``."""
    more = {Kind.ATOM: ATOMS, Kind.TENSOR: (torch.Tensor,), Kind.ARRAY: (numpy.ndarray,), Kind.CLASS: (type,)}
    return (*(cls for cls, found in _BY_TYPE.items() if found is kind), *more.get(kind, ()))


def kind_of(value: Any) -> Kind:
    """Classify a value by its type alone: proxies and lazy objects are never woken."""
    return _kind_of_type(type(value))


@cached
def _kind_of_type(cls: type[Any]) -> Kind:
    found = _BY_TYPE.get(cls)
    if found is not None:
        return found
    if issubclass(cls, ATOMS):
        return Kind.ATOM
    if issubclass(cls, torch.Tensor):
        return Kind.OPAQUE if cls.__module__.startswith("torch.distributed") else Kind.TENSOR
    if issubclass(cls, numpy.ndarray):
        return Kind.ARRAY
    if issubclass(cls, type):
        return Kind.CLASS
    if issubclass(cls, tuple):
        return Kind.LIST
    if closed(cls) or not _has_attributes(cls):
        return Kind.OPAQUE
    return Kind.OBJECT


def _has_attributes(cls: type[Any]) -> bool:
    if cls.__module__ == "builtins" and not issubclass(cls, BaseException):
        return False
    return bool(cls.__dictoffset__) or bool(copyreg._slotnames(cls)) or issubclass(cls, (dict, list, set))  # type: ignore[attr-defined]


def attributes(value: Any) -> dict[str, Any]:
    """Return an object's own attributes, in ``__dict__`` and slots, less those that an outcome leaves alone."""
    found: dict[str, Any] = {}
    if kind_of(value) is Kind.OBJECT:
        for slot in copyreg._slotnames(type(value)):  # type: ignore[attr-defined]
            with contextlib.suppress(AttributeError):
                found[slot] = object.__getattribute__(value, slot)
    with contextlib.suppress(AttributeError):
        found.update(object.__getattribute__(value, "__dict__"))
    for name in skipped(type(value)):
        found.pop(name, None)
    return found


def attribute(value: Any, name: str) -> Any:
    """Return one of an object's own attributes; raises ``AttributeError``."""
    own = getattr(value, "__dict__", None)
    return own[name] if own is not None and name in own else object.__getattribute__(value, name)


def base_of(value: dict[Any, Any]) -> Any:
    """Return the class whose methods read and write a dictionary, past what a class of the user's makes of them.

    ``dict``'s own methods would break the order that an ``OrderedDict`` keeps.
    """
    return collections.OrderedDict if isinstance(value, collections.OrderedDict) else dict


def is_users(module: str | None, users: frozenset[str]) -> bool:
    return module == "__main__" or module in users


def by_name(value: Any) -> tuple[str, str] | None:
    """Return (module, qualname) of a class or function that ``find`` finds again, or None."""
    module, qualname = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(qualname, str) or "<" in qualname:
        return None
    try:
        return (module, qualname) if find(module, qualname) is value else None
    except (LookupError, AttributeError, ImportError):
        return None
