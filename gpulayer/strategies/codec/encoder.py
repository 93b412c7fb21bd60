"""Writes Python values as nodes."""

from __future__ import annotations

import collections
import pathlib
import weakref
from collections.abc import Callable
from typing import Any

import numpy
import torch

from gpulayer.strategies import kinds
from gpulayer.strategies.codec.atoms import PLAIN, atom_node
from gpulayer.strategies.codec.nodes import Node, NotCarried, Text, raw_bytes
from gpulayer.strategies.codec.objects import makeable, state_of, tolerant
from gpulayer.strategies.codec.tensors import tensor_node
from gpulayer.strategies.kinds import Kind

_DEPTH = 400
_SEQUENCES: dict[Any, str] = {
    list: "list",
    tuple: "tuple",
    collections.deque: "deque",
    set: "set",
    frozenset: "frozenset",
}


class Encoder:
    """Writes values into ``nodes``. ``text`` translates every string; ``known`` answers for objects that the reader has.

    ``known(value)`` returns a node for an object of the reader's own, or None to have it written out. ``lost`` names the
    attributes that new modules of the user go without.
    """

    def __init__(self, text: Text = str, known: Callable[[Any], Node | None] = lambda value: None) -> None:
        self.nodes: list[Node] = []
        self.lost: list[NotCarried] = []
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
        if type(value) in PLAIN:
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
        self._fill(node, value, state_of(value))
        return reference

    def _fill(self, node: Node, value: Any, own: dict[str, Any]) -> None:
        """Write attributes and items of an object into its node; a module may lose attributes."""
        node["attrs"] = {}
        for key, held in own.items():
            try:
                node["attrs"][key] = self.encode(held)
            except NotCarried as failed:
                if not tolerant(type(value)):
                    failed.place = f".{key}{failed.place}"
                    raise
                if not kinds.quiet(type(value)):
                    failed.place = f"{type(value).__qualname__}.{key}{failed.place}"
                    self.lost.append(failed)
        if isinstance(value, dict):
            node["items"] = self.pairs(value)
        elif isinstance(value, list):
            node["elements"] = [self.encode(item) for item in list.__iter__(value)]
        elif isinstance(value, set):
            node["elements"] = [self.encode(item) for item in set.__iter__(value)]

    def _generator(self, value: Any) -> tuple[int]:
        made = {torch.Generator: "torch"}.get(type(value))
        if made is None:
            raise NotCarried(value)
        return self.add({"k": "generator", "state": value.get_state()}, value)

    def _array(self, value: Any) -> Node:
        if isinstance(value, bytearray):
            return {"k": "bytearray", "data": raw_bytes(bytes(value))}
        if type(value) is not numpy.ndarray or value.dtype.hasobject or value.dtype.names:
            raise NotCarried(value)
        raw = numpy.ascontiguousarray(value)
        return {"k": "array", "dtype": value.dtype.str, "shape": list(value.shape), "data": raw_bytes(raw.tobytes())}

    def _atom(self, value: Any) -> Node:
        made = atom_node(value)
        if made is None:
            raise NotCarried(value)
        if isinstance(value, pathlib.PurePath):
            made["text"] = self._text(made["text"])
        return made
