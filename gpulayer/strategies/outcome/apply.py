"""Applies what a call left in the job to the objects of another process: in place, so that every alias holds."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from gpulayer.strategies import codec, digest, kinds, parts, random_state
from gpulayer.strategies.codec import Decoder, Lost, Node
from gpulayer.strategies.kinds import Kind
from gpulayer.strategies.outcome import links, looks
from gpulayer.strategies.outcome.observe import Place, resolve, spell
from gpulayer.strategies.outcome.scene import Scene


@dataclass(frozen=True)
class Applied:
    """What an outcome holds besides the changes: ``lost`` names what changed and couldn't be carried.

    ``fill`` applies the module's part later, where the outcome came without it.
    """

    returned: Any = None
    extra: dict[str, Any] = field(default_factory=dict)
    lost: tuple[str, ...] = ()
    fill: Callable[[dict[str, Any]], Applied] | None = None


def apply(
    body: dict[str, Any], scene: Scene, text: Callable[[str], str] = str, before: Callable[[str], str] | None = None
) -> Applied:
    """Change the objects of ``scene`` as the call changed the job's; ``text`` translates every string.

    ``before`` translates those by which an object is found, as it was before the call. The process goes on with the random
    states that the call left.
    """
    applied = _Application(body, scene, text, before or text).run()
    if applied.extra.get("random"):
        random_state.leave(applied.extra["random"])
    return applied


def read(body: dict[str, Any], text: Callable[[str], str] = str) -> Applied:
    """Return what an outcome holds besides its changes, without applying them (another rank's, another process's)."""
    module = {**body.get("module", _NOTHING), "edits": []}
    return _Application({**body, "edits": [], "callbacks": [], "module": module}, Scene(None, None), text, text).run()


_NOTHING: dict[str, Any] = {"edits": [], "nodes": [], "extra": {}}


class _Application:
    def __init__(self, body: dict[str, Any], scene: Scene, text: Callable[[str], str], before: Callable[[str], str]) -> None:
        self._body = body
        self._scene = scene
        self._before = before
        self._nodes: list[Node] = []
        self._users = frozenset(body["users"])
        self._roots = Scene(scene.trainer, scene.model, scene.datamodule, scene.arguments, self._users).roots()
        self._lost = list(body["lost"])
        self._own: dict[int, Any] = {}
        self._edited: set[int] = set()
        self._decoder = Decoder(self._nodes, text, self._known)

    def run(self) -> Applied:
        body = self._body
        module = body.get("module", _NOTHING)
        edits = [*module["edits"], *body["edits"]]
        targets = self._look_up(edits, [*body["nodes"], *module["nodes"]])
        self._pair_callbacks()
        self._edited = {id(target) for target in targets if target is not None}
        for edit, target in zip(edits, targets, strict=True):
            self._apply(edit, target)
        extra = {name: self._value(reference, name) for name, reference in {**body["extra"], **module["extra"]}.items()}
        links.attach(self._scene, extra.get("loaders") or {})
        return Applied(
            returned=self._value(body["returned"], "the returned value"),
            extra=extra,
            lost=self._told(),
            fill=None if "module" in body else self._fill,
        )

    def _fill(self, module: dict[str, Any]) -> Applied:
        targets = self._look_up(module["edits"], module["nodes"])
        self._edited = {id(target) for target in targets if target is not None}
        for edit, target in zip(module["edits"], targets, strict=True):
            self._apply(edit, target)
        extra = {name: self._value(reference, name) for name, reference in module["extra"].items()}
        return Applied(extra=extra, lost=self._told())

    def _look_up(self, edits: list[Node], nodes: list[Node]) -> list[Any]:
        """Return what is to be changed. Places are those before the call: all are looked up before anything moves."""
        for index, node in enumerate(nodes, len(self._nodes)):
            if node["k"] == "at":
                self._own[index] = self._find(node["place"])
        self._nodes.extend(nodes)
        return [self._find(edit["at"]) for edit in edits]

    def _told(self) -> tuple[str, ...]:
        lost, self._lost = self._lost, []
        return tuple(dict.fromkeys(lost))

    def _known(self, index: int, node: Node) -> Any:
        if node["k"] != "at":
            return None
        found = self._own.get(index)
        if found is None:
            raise Lost(spell(self._place(node["place"])))
        return found

    def _place(self, place: list[list[Any]]) -> Place:
        return tuple((kind, self._before(key) if isinstance(key, str) else key) for kind, key in place)

    def _find(self, place: list[list[Any]]) -> Any:
        try:
            return resolve(self._place(place), self._roots, self._users)
        except (LookupError, AttributeError, TypeError):
            return None

    def _value(self, reference: Any, name: str) -> Any:
        try:
            return self._decoder.decode(reference)
        except Lost as failed:
            self._lost.append(f"{name} ({failed})")
            return None

    def _pair_callbacks(self) -> None:
        """Let callbacks that the module made for this call be our own module's, made just the same."""
        new = [
            (position, reference[0])
            for position, reference in enumerate(self._body["callbacks"])
            if isinstance(reference, tuple) and self._nodes[reference[0]]["k"] == "object"
        ]
        if not new:
            return
        trainer = self._scene.trainer
        with contextlib.suppress(Exception):
            parts.attach_model_callbacks(trainer)
        for position, index in new:
            node = self._nodes[index]
            own = trainer.callbacks[position] if position < len(trainer.callbacks) else None
            if own is not None and (type(own).__module__, type(own).__qualname__) == (node["module"], node["name"]):
                self._decoder.put(index, own)
                self._attributes(own, node)

    def _apply(self, edit: Node, target: Any) -> None:
        name = spell(self._place(edit["at"]))
        if target is None:
            self._lost.append(f"{name} (not there)")
            return
        try:
            self._change(Kind(edit["kind"]), target, edit)
        except Lost as failed:
            self._lost.append(f"{name} ({failed})")
        except Exception as failed:  # an object of the user's may refuse
            self._lost.append(f"{name} ({type(failed).__name__}: {failed})")

    def _change(self, kind: Kind, target: Any, edit: Node) -> None:
        match kind:
            case Kind.LIST | Kind.SET:
                self._decoder.refill(target, edit)
            case Kind.DICT:
                self._refill(target, edit)
            case Kind.TENSOR:
                put_tensor(target, edit)
            case Kind.ARRAY:
                self._array(target, edit)
            case Kind.GENERATOR:
                looks.set_generator_state(target, self._decoder.decode(edit["state"]))
            case Kind.OBJECT:
                self._class(target, edit)
                self._attributes(target, edit)
                if "items" in edit:
                    self._refill(target, edit)
                elif "elements" in edit:
                    self._decoder.refill(target, edit)
            case Kind.FUNCTION:
                self._cells(target, edit)
            case Kind.CLASS | Kind.MODULE:
                self._members(target, edit)

    def _refill(self, target: dict[Any, Any], edit: Node) -> None:
        if edit.get("tensors"):
            self._pair_tensors(target, edit)
        kept = {}
        for reference in edit.get("left", ()):
            key = self._decoder.decode(reference)
            if key in target:
                kept[key] = target[key]
        self._decoder.refill(target, edit)
        kinds.base_of(target).update(target, kept)

    def _pair_tensors(self, target: dict[Any, Any], edit: Node) -> None:
        """Keep our tensor where the job's was only replaced by one of the same shape (a move to a device and back).

        One that was changed before it was replaced is another one's from then on, in the job as here.
        """
        for key, reference in edit["items"]:
            own = target.get(key)
            if own is None or not isinstance(reference, tuple) or id(own) in self._edited:
                continue
            node = self._nodes[reference[0]]
            if node["k"] == "tensor" and own.shape == node["value"].shape and own.dtype == node["value"].dtype:
                if own.is_meta or torch.nn.parameter.is_lazy(own):
                    continue
                put_tensor(own, node)
                self._decoder.put(reference[0], own)

    def _array(self, target: Any, edit: Node) -> None:
        value = self._decoder.decode(edit["array"])
        if isinstance(target, bytearray):
            target[:] = value
        else:
            if target.shape != value.shape:
                target.resize(value.shape, refcheck=False)
            target[...] = value

    def _class(self, target: Any, edit: Node) -> None:
        if "name" not in edit or (type(target).__module__, type(target).__qualname__) == (edit["module"], edit["name"]):
            return
        with contextlib.suppress(LookupError, AttributeError, TypeError, ImportError):
            target.__class__ = kinds.find(edit["module"], edit["name"])

    def _attributes(self, target: Any, edit: Node) -> None:
        for name, reference in edit["attrs"].items():
            try:
                value = self._decoder.decode(reference)
            except Lost as failed:
                if not kinds.quiet(type(target)):
                    self._lost.append(f"{name} ({failed})")
                continue
            codec.set_attributes(target, {name: value})
        for name in edit.get("gone", ()):
            codec.delete_attribute(target, name)

    def _cells(self, target: types.FunctionType, edit: Node) -> None:
        cells = dict(zip(target.__code__.co_freevars, target.__closure__ or (), strict=True))
        for name, reference in edit["attrs"].items():
            if name in cells:
                cells[name].cell_contents = self._decoder.decode(reference)

    def _members(self, target: Any, edit: Node) -> None:
        for name, reference in edit["attrs"].items():
            setattr(target, name, self._decoder.decode(reference))
        for name in edit["gone"]:
            if name in vars(target):
                delattr(target, name)


def put_tensor(target: torch.Tensor, node: Node) -> None:
    """Give a tensor the values, shape, dtype and ``requires_grad`` of a node, in place."""
    if node["k"] == "tensor":
        digest.put(target, node["value"])
    if target.is_leaf and target.requires_grad != node["grad"]:
        target.requires_grad_(node["grad"])
