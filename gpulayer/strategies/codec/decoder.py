"""Makes Python values of nodes."""

from __future__ import annotations

import collections
import pathlib
import weakref
from collections.abc import Callable
from typing import Any, cast

import fsspec
import numpy
import torch

from gpulayer.strategies import kinds
from gpulayer.strategies.codec.atoms import read_atom
from gpulayer.strategies.codec.nodes import Lost, Node, Text
from gpulayer.strategies.codec.objects import has_own, makeable, set_attributes, tolerant
from gpulayer.strategies.codec.tensors import make_tensor


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
        set_attributes(made, kinds.unlinked(cls))
        state = {}
        for name, reference in node["attrs"].items():
            try:
                state[name] = self.decode(reference)
            except Lost:
                if not tolerant(cls):
                    raise
        if has_own(cls, "__setstate__"):
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
        return read_atom(node)
