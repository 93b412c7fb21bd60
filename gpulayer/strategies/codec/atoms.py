"""Atoms as nodes: values that are replaced rather than changed."""

from __future__ import annotations

import datetime
import decimal
import enum
import fractions
import pathlib
import re
import uuid
from collections.abc import Callable
from typing import Any

import numpy
import torch

from gpulayer.strategies import kinds
from gpulayer.strategies.codec.nodes import Lost, Node, raw_bytes

PLAIN = (bool, int, float, type(None))
"""What stands for itself beside strings."""


def atom_node(value: Any) -> Node | None:
    """Write an atom; None when there is no way to."""
    cls = type(value)
    if isinstance(value, enum.Enum):
        name = kinds.by_name(cls)
        return None if name is None else {"k": "enum", "module": name[0], "name": name[1], "member": value.name}
    if isinstance(value, pathlib.PurePath):
        return {"k": "path", "pure": not isinstance(value, pathlib.Path), "text": str(value)}
    if isinstance(value, numpy.generic):
        return None if value.dtype.hasobject else {"k": "scalar", "dtype": value.dtype.str, "data": raw_bytes(value.tobytes())}
    kind = numpy.dtype if isinstance(value, numpy.dtype) else cls
    if kind in _SINGLE:
        return {"k": kind.__name__, "v": None}
    written = _WRITERS[kind](value) if kind in _WRITERS else None
    return None if written is None else {"k": kind.__name__, "v": written}


def read_atom(node: Node) -> Any:
    """Undo ``atom_node`` for all but enums and paths, which need the reader's help."""
    if node["k"] == "scalar":
        return numpy.frombuffer(node["data"].numpy().tobytes(), dtype=node["dtype"])[0]
    if node["k"] not in _READERS:
        raise Lost(node["k"])
    return _READERS[node["k"]](node["v"])


def _torch_name(value: Any) -> str:
    return str(value).removeprefix("torch.")


_WRITERS: dict[type[Any], Callable[[Any], Any]] = {
    complex: lambda v: [v.real, v.imag],
    bytes: raw_bytes,
    range: lambda v: [v.start, v.stop, v.step],
    slice: lambda v: [v.start, v.stop, v.step] if all(type(part) in PLAIN for part in (v.start, v.stop, v.step)) else None,
    decimal.Decimal: str,
    fractions.Fraction: str,
    uuid.UUID: str,
    datetime.datetime: lambda v: v.isoformat(),
    datetime.date: lambda v: v.isoformat(),
    datetime.time: lambda v: v.isoformat(),
    datetime.timedelta: lambda v: [v.days, v.seconds, v.microseconds],
    datetime.timezone: lambda v: [v.utcoffset(None).days, v.utcoffset(None).seconds],
    re.Pattern: lambda v: [v.pattern, v.flags] if isinstance(v.pattern, str) else None,
    numpy.dtype: lambda v: v.str,
    torch.Size: list,
    torch.dtype: _torch_name,
    torch.device: str,
    torch.layout: _torch_name,
    torch.memory_format: _torch_name,
}
_SINGLE = (type(...), type(NotImplemented))
_READERS: dict[str, Callable[[Any], Any]] = {
    "complex": lambda v: complex(*v),
    "bytes": lambda v: v.numpy().tobytes(),
    "range": lambda v: range(*v),
    "slice": lambda v: slice(*v),
    "Decimal": decimal.Decimal,
    "Fraction": fractions.Fraction,
    "UUID": uuid.UUID,
    "datetime": datetime.datetime.fromisoformat,
    "date": datetime.date.fromisoformat,
    "time": datetime.time.fromisoformat,
    "timedelta": lambda v: datetime.timedelta(*v),
    "timezone": lambda v: datetime.timezone(datetime.timedelta(*v)),
    "Pattern": lambda v: re.compile(*v),
    "dtype": lambda v: getattr(torch, v) if isinstance(getattr(torch, v, None), torch.dtype) else numpy.dtype(v),
    "Size": torch.Size,
    "device": torch.device,
    "layout": lambda v: getattr(torch, v),
    "memory_format": lambda v: getattr(torch, v),
    "ellipsis": lambda v: ...,
    "NotImplementedType": lambda v: NotImplemented,
}
