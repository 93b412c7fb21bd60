"""A module whose weights stayed with a job: nothing reads or changes those that lie here, until ``gpulayer.fetch``."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch.nn.parameter import is_lazy

from gpulayer.errors import StaleModule
from gpulayer.strategies import digest

_MARK = "_gpulayer_stale"
_FACTS = frozenset(
    {
        *("shape", "dtype", "device", "layout", "ndim", "requires_grad", "is_leaf", "is_meta", "is_quantized", "is_sparse"),
        *("is_cpu", "is_cuda", "is_nested", "is_floating_point", "is_complex", "grad", "grad_fn", "itemsize", "nbytes"),
        *("__hash__", "__len__", "size", "dim", "numel", "nelement", "element_size", "stride", "is_contiguous"),
    }
)
"""What may be asked of a tensor whose values are out of date."""


@dataclass
class Owed:
    """The module's part of one call's outcome. ``read`` fetches it, ``apply`` applies it; ``record`` is its blob's hash."""

    record: str
    read: Callable[[], Any]
    apply: Callable[[Any], object]


@dataclass
class Stale:
    """What a module lacks: the parts of calls, oldest first. ``tensors`` are those that it had when they were left."""

    job_id: str
    owed: list[Owed] = field(default_factory=list)
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)


class _Guarded:
    """Makes a tensor that answers for its shape alone."""

    job_id: str

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = function.__name__
        asked = getattr(function.__self__, "__name__", "") if name == "__get__" else name
        if asked not in _FACTS:
            job_id = next(each.job_id for each in types if issubclass(each, _Guarded))
            raise StaleModule(f"These weights are out of date: the newer ones stayed with {job_id}.", job_id=job_id)
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **(kwargs or {}))

    def __repr__(self, **_: Any) -> str:
        return f"<weights that stayed with {self.job_id}: gpulayer.fetch(trainer)>"


@functools.cache
def _guarded(cls: Any, job_id: str) -> Any:
    return type(cls.__name__, (_Guarded, cls), {"job_id": job_id, "original": cls, "__module__": cls.__module__})


def is_stale(model: Any) -> bool:
    return model is not None and _MARK in vars(model)


def leave(model: torch.nn.Module, job_id: str, owed: Owed) -> None:
    """Note that a call's part for a module stays with its job."""
    mark = vars(model).setdefault(_MARK, Stale(job_id))
    _free(mark)
    mark.job_id = job_id
    mark.owed.append(owed)
    _guard(model, mark)


def fill(model: Any) -> None:
    """Make a module what it is in its job, call by call; what can't be read raises, and leaves it stale."""
    mark = _mark_of(model)
    while mark is not None and mark.owed:
        part = mark.owed[0].read()
        _free(mark)
        try:
            mark.owed.pop(0).apply(part)
        finally:
            _guard(model, mark)
    if mark is not None:
        _free(mark)
        del vars(model)[_MARK]


def check(model: Any, records: Iterable[str]) -> bool:
    """Say whether a module is stale, as a call is about to be made; ``records`` are the outcomes that its job will know.

    A module that was given other weights meanwhile is so no longer. Raises ``StaleModule`` where the job would go on from other
    weights than the caller means: it was given some, or they are another run's.
    """
    mark = _mark_of(model)
    if mark is None:
        return False
    now = digest.named_tensors(model)
    same = {name for name, tensor in now.items() if mark.tensors.get(name) is tensor}
    if not same and now:
        _free(mark)
        del vars(model)[_MARK]
        return False
    if same != now.keys() or same != mark.tensors.keys():
        other = sorted((now.keys() | mark.tensors.keys()) - same)
        raise StaleModule(
            f"Weights of this {type(model).__name__} were replaced ({other[0]}) while others stayed with {mark.job_id}.",
            next_step="Call gpulayer.fetch(trainer) first, and change them then.",
            job_id=mark.job_id,
        )
    known = set(records)
    if any(each.record not in known for each in mark.owed):
        raise StaleModule(
            f"The weights of this {type(model).__name__} stayed with {mark.job_id}, which is none of this run's.",
            job_id=mark.job_id,
        )
    return True


def _mark_of(model: Any) -> Stale | None:
    return None if model is None else cast(Stale | None, vars(model).get(_MARK))


def _guard(model: torch.nn.Module, mark: Stale) -> None:
    mark.tensors = digest.named_tensors(model)
    for tensor in mark.tensors.values():
        if not is_lazy(tensor) and not isinstance(tensor, _Guarded):
            with contextlib.suppress(TypeError):  # a class of the user's that is laid out in its own way
                tensor.__class__ = _guarded(type(tensor), mark.job_id)


def _free(mark: Stale) -> None:
    for tensor in mark.tensors.values():
        if isinstance(tensor, _Guarded):
            tensor.__class__ = cast(Any, type(tensor)).original
