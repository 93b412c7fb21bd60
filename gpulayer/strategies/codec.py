"""Python values as plain data and tensors that ``torch.load(weights_only=True)`` carries, with shared references kept.

A graph is a table of nodes. ``None``, booleans, integers, floats and strings stand for themselves; a one-tuple ``(n,)`` is a
reference to node n; a node is a dictionary whose ``k`` names its kind. So aliases stay aliases, and cycles are no trouble.
"""

from __future__ import annotations

import collections
import contextlib
import copyreg
import dataclasses
import datetime
import decimal
import enum
import fractions
import pathlib
import re
import types
import uuid
import weakref
from collections.abc import Callable
from typing import Any, cast

import fsspec
import numpy
import torch

from gpulayer.strategies import kinds
from gpulayer.strategies.kinds import Kind

Node = dict[str, Any]
Text = Callable[[str], str]
_DEPTH = 400
_SEQUENCES: dict[Any, str] = {
    list: "list",
    tuple: "tuple",
    collections.deque: "deque",
    set: "set",
    frozenset: "frozenset",
}
_PLAIN = (bool, int, float, type(None))


class NotCarried(Exception):
    """A value that is neither plain data nor made of it; ``place`` is where in the value it was met."""

    def __init__(self, value: Any, place: str = "") -> None:
        super().__init__(type(value).__name__)
        self.what = type(value).__qualname__
        self.place = place


class Lost(Exception):
    """A node that can't become a value here: its class or its original isn't there."""


class Encoder:
    """Writes values into ``nodes``. ``text`` translates every string; ``known`` answers for objects that the reader has.

    ``known(value)`` returns a node for an object of the reader's own, or None to have it written out.
    """

    def __init__(self, text: Text = str, known: Callable[[Any], Node | None] = lambda value: None) -> None:
        self.nodes: list[Node] = []
        self._text = text
        self._known = known
        self._index: dict[int, int] = {}
        self._alive: list[Any] = []
        self._depth = 0

    def add(self, node: Node, value: Any = None) -> tuple[int]:
        """Append a node, and remember it as the one of ``value``."""
        if value is not None:
            self._index[id(value)] = len(self.nodes)
            self._alive.append(value)
        self.nodes.append(node)
        return (len(self.nodes) - 1,)

    def encode(self, value: Any) -> Any:
        """Return ``value`` itself or a reference to its node; raises ``NotCarried``."""
        if type(value) is str:
            return self._text(value)
        if type(value) in _PLAIN:
            return value
        if id(value) in self._index:
            return (self._index[id(value)],)
        known = self._known(value)
        if known is not None:
            return self.add(known, value)
        if self._depth > _DEPTH:
            raise NotCarried(value)
        self._depth += 1
        count = len(self.nodes)
        try:
            return self._write(value)
        except NotCarried:
            self._forget(count)
            raise
        finally:
            self._depth -= 1

    def _forget(self, count: int) -> None:
        """Take back the nodes of a value that turned out not to be carried."""
        for key in [key for key, index in self._index.items() if index >= count]:
            del self._index[key]
        del self.nodes[count:]

    def _write(self, value: Any) -> tuple[int]:
        kind = kinds.kind_of(value)
        match kind:
            case Kind.ATOM:
                return self.add(self._atom(value))
            case Kind.LIST | Kind.SET:
                return self._sequence(value)
            case Kind.DICT:
                return self._mapping(value)
            case Kind.TENSOR:
                return self.add(tensor_node(value), value)
            case Kind.ARRAY:
                return self.add(self._array(value), value)
            case Kind.GENERATOR:
                return self._generator(value)
            case Kind.OBJECT:
                return self._object(value)
            case Kind.METHOD:
                return self.add({"k": "method", "self": self.encode(value.__self__), "name": value.__name__})
        return self._named(value)

    def _named(self, value: Any) -> tuple[int]:
        if type(value).__qualname__ == "LocalFileSystem" and type(value).__module__.startswith("fsspec."):
            return self.add({"k": "local files", "auto_mkdir": bool(value.auto_mkdir)}, value)
        if type(value) in weakref.ProxyTypes:
            return self._proxy(value)
        name = kinds.by_name(value)
        if name is None:
            raise NotCarried(value)
        return self.add({"k": "name", "module": name[0], "name": name[1]}, value)

    def _proxy(self, value: Any) -> tuple[int]:
        try:
            meant = value.__reduce_ex__.__self__
        except (ReferenceError, AttributeError):
            raise NotCarried(None) from None
        return self.add({"k": "proxy", "to": self.encode(meant)}, value)

    def _sequence(self, value: Any) -> tuple[int]:
        kind = _SEQUENCES.get(type(value))
        if kind is None:
            return self._named_tuple(value)
        node: Node = {"k": kind}
        if kind == "deque":
            node["maxlen"] = value.maxlen
        reference = self.add(node, value)
        node["items"] = [self.encode(item) for item in value]
        return reference

    def _named_tuple(self, value: Any) -> tuple[int]:
        name = kinds.by_name(type(value))
        if name is None:
            raise NotCarried(value)
        return self.add(
            {"k": "namedtuple", "module": name[0], "name": name[1], "items": [self.encode(v) for v in value]}, value
        )

    def _mapping(self, value: Any) -> tuple[int]:
        kind = {dict: "dict", collections.OrderedDict: "odict", collections.defaultdict: "ddict"}[type(value)]
        node: Node = {"k": kind}
        reference = self.add(node, value)
        if kind == "ddict":
            node["factory"] = self.encode(value.default_factory)
        node["items"] = self.pairs(value)
        return reference

    def pairs(self, value: Any) -> list[tuple[Any, Any]]:
        return [(self.encode(key), self.encode(item)) for key, item in kinds.base_of(value).items(value)]

    def _object(self, value: Any) -> tuple[int]:
        cls = type(value)
        name = kinds.by_name(cls)
        if name is None or not makeable(cls):
            raise NotCarried(value)
        node: Node = {"k": "object", "module": name[0], "name": name[1], "whole": True}
        reference = self.add(node, value)
        self.fill(node, value, state_of(value))
        return reference

    def fill(self, node: Node, value: Any, own: dict[str, Any]) -> list[NotCarried]:
        """Write attributes and items of an object into its node; a module may lose attributes, which are returned."""
        lost = []
        node["attrs"] = {}
        for key, held in own.items():
            try:
                node["attrs"][key] = self.encode(held)
            except NotCarried as failed:
                failed.place = f".{key}{failed.place}"
                if not tolerant(type(value)):
                    raise
                lost.append(failed)
        if isinstance(value, dict):
            node["items"] = self.pairs(value)
        elif isinstance(value, list):
            node["elements"] = [self.encode(item) for item in list.__iter__(value)]
        elif isinstance(value, set):
            node["elements"] = [self.encode(item) for item in set.__iter__(value)]
        return lost

    def _generator(self, value: Any) -> tuple[int]:
        made = {torch.Generator: "torch"}.get(type(value))
        if made is None:
            raise NotCarried(value)
        return self.add({"k": "generator", "state": value.get_state()}, value)

    def _array(self, value: Any) -> Node:
        if isinstance(value, bytearray):
            return {"k": "bytearray", "data": _bytes(bytes(value))}
        if type(value) is not numpy.ndarray or value.dtype.hasobject or value.dtype.names:
            raise NotCarried(value)
        raw = numpy.ascontiguousarray(value)
        return {"k": "array", "dtype": value.dtype.str, "shape": list(value.shape), "data": _bytes(raw.tobytes())}

    def _atom(self, value: Any) -> Node:
        made = _atom_node(value)
        if made is None:
            raise NotCarried(value)
        if isinstance(value, pathlib.PurePath):
            made["text"] = self._text(made["text"])
        return made


def _bytes(raw: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(raw), dtype=torch.uint8) if raw else torch.empty(0, dtype=torch.uint8)


def tensor_node(value: torch.Tensor) -> Node:
    """Write a tensor: on the CPU, without its graph, and without the rest of a storage that it only views."""
    node: Node = {
        "k": "tensor",
        "grad": bool(value.requires_grad and value.is_leaf),
        "param": isinstance(value, torch.nn.Parameter | torch.nn.parameter.UninitializedParameter),
    }
    if torch.nn.parameter.is_lazy(value):
        return {**node, "k": "lazy"}
    plain = value.detach()
    if hasattr(plain, "full_tensor"):
        raise NotCarried(value)
    if type(plain) is not torch.Tensor:
        plain = plain.as_subclass(torch.Tensor)
    if plain.is_meta:
        return {**node, "k": "meta", "shape": list(plain.shape), "dtype": str(plain.dtype).removeprefix("torch.")}
    plain = plain.cpu()
    if plain.layout is torch.strided and plain.untyped_storage().nbytes() > plain.numel() * plain.element_size():
        plain = plain.clone()
    return {**node, "value": plain}


def _atom_node(value: Any) -> Node | None:
    cls = type(value)
    if isinstance(value, enum.Enum):
        name = kinds.by_name(cls)
        return None if name is None else {"k": "enum", "module": name[0], "name": name[1], "member": value.name}
    if isinstance(value, pathlib.PurePath):
        return {"k": "path", "pure": not isinstance(value, pathlib.Path), "text": str(value)}
    if isinstance(value, numpy.generic):
        return None if value.dtype.hasobject else {"k": "scalar", "dtype": value.dtype.str, "data": _bytes(value.tobytes())}
    if isinstance(value, str | int | float) and cls not in (str, int, float, bool):
        return None
    for kind, write in _WRITERS.items():
        if isinstance(value, kind):
            return {"k": kind.__name__, "v": write(value)}
    return None


def _torch_name(value: Any) -> str:
    return str(value).removeprefix("torch.")


_WRITERS: dict[type[Any], Callable[[Any], Any]] = {
    complex: lambda v: [v.real, v.imag],
    bytes: _bytes,
    range: lambda v: [v.start, v.stop, v.step],
    slice: lambda v: [v.start, v.stop, v.step] if all(type(part) in _PLAIN for part in (v.start, v.stop, v.step)) else None,
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
    type(...): lambda v: None,
    type(NotImplemented): lambda v: None,
}
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


def tolerant(cls: type[Any]) -> bool:
    """Say whether objects of a class are still themselves without an attribute that couldn't be carried."""
    return issubclass(cls, torch.nn.Module) or kinds.quiet(cls)


def makeable(cls: type[Any]) -> bool:
    """Say whether an object of a class can be made from its attributes alone."""
    if issubclass(cls, torch.nn.Module):
        return not kinds.closed(cls)
    if kinds.closed(cls) or any(name in vars(base) for base in cls.__mro__ for name in ("__reduce__",) if base is not object):
        return cls in (collections.Counter, types.SimpleNamespace) or issubclass(cls, collections.OrderedDict)
    if dataclasses.is_dataclass(cls):
        return True
    root = cls.__module__.partition(".")[0]
    ours = root not in _STANDARD or cls.__name__ == "Namespace"
    return ours and cls.__new__ in (object.__new__, dict.__new__, list.__new__, set.__new__)


def _standard() -> frozenset[str]:
    import sys

    return sys.stdlib_module_names - {"__main__"}


_STANDARD = _standard()


def _has(cls: type[Any], method: str) -> bool:
    """Say whether a class has a say in its state; dataclasses are known by their fields."""
    return not dataclasses.is_dataclass(cls) and any(method in vars(base) for base in cls.__mro__ if base is not object)


def state_of(value: Any) -> dict[str, Any]:
    """Return the state that a new object of the same class is made of, as ``__getstate__`` gives it where the class has one."""
    cls = type(value)
    if _has(cls, "__getstate__"):
        state = value.__getstate__()
        if isinstance(state, dict):
            return {name: held for name, held in state.items() if name not in kinds.skipped(cls)}
        raise NotCarried(value)
    return kinds.attributes(value)


class Decoder:
    """Makes values of nodes. ``text`` translates strings; ``known`` finds the reader's own object for a node.

    Objects of the reader's own are returned as they are: filling them with what the nodes say is the reader's business.
    """

    def __init__(
        self, nodes: list[Node], text: Text = str, known: Callable[[int, Node], Any] = lambda index, node: None
    ) -> None:
        self._nodes = nodes
        self._text = text
        self._known = known
        self._made: dict[int, Any] = {}

    def decode(self, reference: Any) -> Any:
        """Return the value behind a reference; raises ``Lost``."""
        if isinstance(reference, str):
            return self._text(reference)
        if not isinstance(reference, tuple):
            return reference
        (index,) = reference
        if index not in self._made:
            self._make(index)
        return self._made[index]

    def put(self, index: int, value: Any) -> None:
        """Say which object of the reader's own a node stands for."""
        self._made[index] = value

    def _make(self, index: int) -> None:
        node = self._nodes[index]
        known = self._known(index, node)
        if known is not None:
            self._made[index] = known
            return
        match node["k"]:
            case "list" | "set" | "deque" | "dict" | "odict" | "ddict":
                self._container(index, node)
            case "tuple":
                self._made[index] = tuple(self.decode(item) for item in node["items"])
            case "frozenset":
                self._made[index] = frozenset(self.decode(item) for item in node["items"])
            case "namedtuple":
                cls = self._class(node)
                self._made[index] = tuple.__new__(cls, [self.decode(item) for item in node["items"]])
            case "object":
                self._object(index, node)
            case _:
                self._made[index] = self._simple(node)

    def _container(self, index: int, node: Node) -> None:
        made: Any
        match node["k"]:
            case "list":
                made = []
            case "set":
                made = set()
            case "deque":
                made = collections.deque(maxlen=node["maxlen"])
            case "dict":
                made = {}
            case "odict":
                made = collections.OrderedDict()
            case _:
                made = collections.defaultdict(self.decode(node["factory"]))
        self._made[index] = made
        self.refill(made, node)

    def refill(self, container: Any, node: Node) -> None:
        """Give a container exactly the contents of a node, in place."""
        if isinstance(container, dict):
            items = [(self.decode(key), self.decode(item)) for key, item in node["items"]]
            kinds.base_of(container).clear(container)
            kinds.base_of(container).update(container, items)
            return
        elements = [self.decode(item) for item in (node["items"] if "items" in node else node["elements"])]
        container.clear()
        if isinstance(container, set):
            container.update(elements)
        else:
            container.extend(elements)

    def _object(self, index: int, node: Node) -> None:
        if not node.get("whole"):
            raise Lost(f"{node['module']}.{node['name']}")
        cls = self._class(node)
        if not isinstance(cls, type) or not makeable(cls):
            raise Lost(f"{node['module']}.{node['name']}")
        made: Any = cast(Any, cls).__new__(cls)
        self._made[index] = made
        state = {}
        for name, reference in node["attrs"].items():
            try:
                state[name] = self.decode(reference)
            except Lost:
                if not tolerant(cls):
                    raise
        if _has(cls, "__setstate__"):
            made.__setstate__(state)
        else:
            set_attributes(made, state)
        if "items" in node or "elements" in node:
            self.refill(made, node)

    def _class(self, node: Node) -> Any:
        try:
            return kinds.find(node["module"], node["name"])
        except (LookupError, AttributeError, ImportError) as cause:
            raise Lost(f"{node['module']}.{node['name']}") from cause

    def _simple(self, node: Node) -> Any:
        match node["k"]:
            case "tensor" | "meta" | "lazy":
                return make_tensor(node)
            case "array":
                raw = node["data"].numpy().tobytes()
                return numpy.frombuffer(raw, dtype=node["dtype"]).reshape(node["shape"]).copy()
            case "scalar":
                return numpy.frombuffer(node["data"].numpy().tobytes(), dtype=node["dtype"])[0]
            case "bytearray":
                return bytearray(node["data"].numpy().tobytes())
            case "enum":
                return self._class(node)[node["member"]]
            case "path":
                return (pathlib.PurePath if node["pure"] else pathlib.Path)(self._text(node["text"]))
            case "name":
                return self._class(node)
            case "proxy":
                return weakref.proxy(self.decode(node["to"]))
            case "method":
                return getattr(self.decode(node["self"]), node["name"])
            case "local files":
                return fsspec.filesystem("file", auto_mkdir=node["auto_mkdir"])
            case "generator":
                made = torch.Generator()
                made.set_state(node["state"])
                return made
        if node["k"] not in _READERS:
            raise Lost(node["k"])
        return _READERS[node["k"]](node["v"])


def make_tensor(node: Node) -> torch.Tensor:
    """Make a new tensor of its node."""
    if node["k"] == "lazy":
        lazy = torch.nn.parameter.UninitializedParameter if node["param"] else torch.nn.parameter.UninitializedBuffer
        return lazy()
    if node["k"] == "meta":
        value = torch.empty(node["shape"], dtype=getattr(torch, node["dtype"]), device="meta")
    else:
        value = node["value"]
    if node["param"]:
        return torch.nn.Parameter(value, requires_grad=node["grad"])
    return value.requires_grad_() if node["grad"] else value


def set_attributes(value: Any, own: dict[str, Any]) -> None:
    """Set attributes past any ``__setattr__`` of the class, in ``__dict__`` and in slots."""
    slots = set(copyreg._slotnames(type(value)))  # type: ignore[attr-defined]
    for name, held in own.items():
        if name in slots:
            object.__setattr__(value, name, held)
        else:
            value.__dict__[name] = held


def delete_attribute(value: Any, name: str) -> None:
    with contextlib.suppress(AttributeError, KeyError):
        if name in getattr(value, "__dict__", ()):
            del value.__dict__[name]
        else:
            object.__delattr__(value, name)
