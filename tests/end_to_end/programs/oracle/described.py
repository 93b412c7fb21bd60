"""Describes whole object graphs as text: each place that is reached, and what is there, for two runs to be compared."""

from __future__ import annotations

import collections
import copyreg
import csv
import datetime
import functools
import hashlib
import json
import os
import pathlib
import random
import types
import weakref
from collections.abc import Iterator
from typing import Any

import numpy
import torch

NAMED = ("torch.distributed", "torch._", "torch.jit", "torch.fx", "torch.utils.data.datapipes")
"""Objects of these modules are told by their class alone; so are those whose module has one of ``MACHINERY`` in its name."""

MACHINERY = (".strategies.", ".accelerators.", ".plugins.environments", ".launchers.", ".accelerator_connector")
OF_THE_PROCESS = frozenset(
    {"threading", "_thread", "io", "_io", "logging", "rich", "tqdm", "fsspec", "multiprocessing", "queue"}
)
OF_THE_PROCESS_TOO = frozenset({"tensorboard", "google", "psutil", "gpulayer"})
ATOMS = (
    *(bool, int, float, complex, str, bytes, type(None), type(...), range, slice, pathlib.PurePath, datetime.timedelta),
    *(torch.dtype, torch.device, torch.Size, numpy.generic, numpy.dtype),
)
COSTLY = frozenset({"experiment", "estimated_stepping_batches"})
"""Properties that make or change something when they are looked at."""


def write(moment: str, **roots: Any) -> None:
    """Add what is seen at a moment to the file that SEEN names: rank 0 under torchrun, or the caller of a job."""
    if "RANK" in os.environ and os.environ["ACCELERATOR"] == "gpulayer":
        return
    seen = describe(roots)  # on all ranks: some properties of a Trainer ask the others
    if os.environ.get("RANK", "0") == "0":
        with open(os.environ["SEEN"], "a", encoding="utf-8") as file:
            file.write(json.dumps({"moment": moment, "seen": seen}) + "\n")


def of(trainer: Any, model: Any, **more: Any) -> dict[str, Any]:
    """Return the roots of a Trainer's graph, so that what people look at has the shortest names."""
    for name in ("train_dataloader", "val_dataloaders", "test_dataloaders", "predict_dataloaders"):
        getattr(trainer, name)  # a caller's are made when they are looked at
    roots = {"trainer": trainer, "model": model, **more}
    for word, held in (("callback", trainer.callbacks), ("logger", trainer.loggers)):
        counted: collections.Counter[str] = collections.Counter()
        for one in held:
            name = type(one).__name__
            roots[f"{word}.{name}.{counted[name]}"] = one
            counted[name] += 1
    for number, optimizer in enumerate(trainer.optimizers):
        roots[f"optimizer.{number}"] = optimizer
    for number, config in enumerate(trainer.lr_scheduler_configs):
        roots[f"scheduler.{number}"] = config
    python, (_, numbers, *_) = random.getstate(), numpy.random.get_state()
    return {
        **roots,
        "random": {"python": _digest(repr(python)), "numpy": _digest(numbers.tobytes()), "torch": torch.get_rng_state()},
    }


def describe(roots: dict[str, Any]) -> dict[str, str]:
    """Return what is at each place below the roots, the nearest first; a place that is another one's alias says so."""
    found: dict[str, str] = {}
    places: dict[int, str] = {}
    keep = []
    waiting = collections.deque(roots.items())
    late: collections.deque[tuple[str, Any]] = collections.deque()
    while waiting or late:
        if not waiting:
            waiting.extend(_answers(*late.popleft()))
            continue
        place, value = waiting.popleft()
        if isinstance(value, ATOMS):
            found[place] = _text(value)
            continue
        keep.append(value)
        if id(value) in places:
            found[place] = f"is {places[id(value)]}"
            continue
        places[id(value)] = place
        found[place] = _said(value)
        waiting.extend((f"{place}.{name}", held) for name, held in _inside(value))
        if _has_answers(value):
            late.append((place, value))
    return found


def files() -> dict[str, Any]:
    """Return what is in the files of this folder, by their paths; checkpoints, tables and boards by what they hold."""
    found = {}
    for path in sorted(pathlib.Path().rglob("*")):
        name = path.as_posix()
        if path.suffix == ".ckpt":
            found[name] = torch.load(path, weights_only=False)
        elif path.suffix == ".csv":
            with path.open(newline="") as file:
                found[name] = list(csv.DictReader(file))
        elif "tfevents" in name:
            found[f"{path.parent.as_posix()}/tfevents"] = _scalars(name)
        elif path.is_file() and path.suffix not in (".py", ".pyc"):
            found[name] = path.read_text()
    return found


def _scalars(path: str) -> dict[str, Any]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    board = EventAccumulator(path).Reload()
    return {tag: [(event.step, event.value) for event in board.Scalars(tag)] for tag in sorted(board.Tags()["scalars"])}


def _text(value: Any) -> str:
    return f"{type(value).__name__} {_anywhere(repr(value))}"


def _anywhere(text: str) -> str:
    for folder in (os.path.realpath(os.getcwd()), os.getcwd()):
        text = text.replace(folder, "<folder>")
    return text


def _digest(data: Any) -> str:
    return hashlib.sha256(data if isinstance(data, bytes) else str(data).encode()).hexdigest()[:12]


def _class(cls: type[Any]) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _said(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        grad = "with a gradient" if value.requires_grad else "without"
        shown = _digest(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        few = f" {value.tolist()}" if value.numel() < 3 else ""
        return f"{type(value).__name__} {value.dtype} {tuple(value.shape)} {value.device} {grad} {shown}{few}"
    if isinstance(value, numpy.ndarray):
        return f"array {value.dtype} {value.shape} {_digest(value.tobytes())}"
    if isinstance(value, torch.Generator):
        return f"generator {_digest(value.get_state().numpy().tobytes())}"
    if isinstance(value, random.Random):
        return f"random {_digest(repr(value.getstate()))}"
    if isinstance(value, (list, tuple, dict, set, frozenset, collections.deque)):
        return f"{_class(type(value))} of {len(value)}"
    if isinstance(value, type):
        return f"class {_class(value)}"
    if isinstance(value, (types.FunctionType, types.BuiltinFunctionType)):
        return f"function {value.__module__}.{value.__qualname__}"
    if isinstance(value, types.MethodType):
        return f"method {value.__func__.__qualname__}"
    if isinstance(value, types.ModuleType):
        return f"module {value.__name__}"
    return _class(type(value))


def _inside(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, (types.FunctionType, types.BuiltinFunctionType, type, types.ModuleType, numpy.ndarray)):
        return
    if isinstance(value, weakref.ReferenceType):
        yield "()", value()
    elif isinstance(value, types.MethodType):
        yield "__self__", value.__self__
    elif isinstance(value, functools.partial):
        yield from (("func", value.func), ("args", value.args), ("keywords", value.keywords))
    elif isinstance(value, torch.Tensor):
        if value.is_leaf and value.grad is not None:
            yield "grad", value.grad
    elif isinstance(value, (set, frozenset)):
        yield "elements", str(sorted(map(_text, value)))
    elif _is_open(type(value)):
        yield from _held(value)


def _held(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield "keys", str([_anywhere(repr(key)) if isinstance(key, ATOMS) else type(key).__name__ for key in value])
        for number, (key, item) in enumerate(value.items()):
            yield (_anywhere(str(key)) if isinstance(key, (str, int)) else f"nth {number}"), item
            if not isinstance(key, ATOMS):
                yield f"key {number}", key
    elif isinstance(value, (list, tuple, collections.deque)):
        yield from ((str(number), item) for number, item in enumerate(value))
    for slot in copyreg._slotnames(type(value)):  # type: ignore[attr-defined]
        if hasattr(value, slot):
            yield slot, getattr(value, slot)
    own = getattr(value, "__dict__", {})
    yield from ((name, own[name]) for name in sorted(own))


def _is_open(cls: type[Any]) -> bool:
    module = cls.__module__
    if any(base.__name__ == "Trainer" for base in cls.__mro__):
        return True
    root = module.partition(".")[0]
    if root in OF_THE_PROCESS | OF_THE_PROCESS_TOO or module.startswith(NAMED):
        return False
    return not (root.startswith(("lightning", "pytorch_lightning")) and any(part in f"{module}." for part in MACHINERY))


def _has_answers(value: Any) -> bool:
    """Whether the properties of an object are what its user reads."""
    wanted = ("Trainer", "_Loop", "Callback", "Logger", "LightningModule", "LightningDataModule")
    return any(base.__name__ in wanted for base in type(value).__mro__)


def _answers(place: str, value: Any) -> Iterator[tuple[str, Any]]:
    names = {name for base in type(value).__mro__ for name, held in vars(base).items() if isinstance(held, property)}
    for name in sorted(names - COSTLY):
        try:
            yield f"{place}@{name}", getattr(value, name)
        except Exception as error:
            yield f"{place}@{name}", f"raises {type(error).__name__}: {error}"
