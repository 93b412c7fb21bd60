"""Collects in the job what a call changed, as plain data and tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from gpulayer.strategies import codec, kinds
from gpulayer.strategies.codec import Encoder, Node, NotCarried
from gpulayer.strategies.kinds import Kind
from gpulayer.strategies.outcome import looks
from gpulayer.strategies.outcome.looks import Look
from gpulayer.strategies.outcome.observe import Observation, Place, Seen, spell

FORMAT = 2
_TENSOR_TABLES = ("_parameters", "_buffers")


@dataclass
class Collector:
    """Writes the changes since an observation. ``text`` translates strings, the job's paths into the caller's."""

    observation: Observation
    text: Callable[[str], str] = str
    lost: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.encoder = Encoder(self.text, self._known)

    def _known(self, value: Any) -> Node | None:
        seen = self.observation.of(value)
        return None if seen is None else {"k": "at", "place": self._place(seen.place)}

    def _place(self, place: Place) -> list[list[Any]]:
        return [[kind, self.text(key) if isinstance(key, str) else key] for kind, key in place]

    def value(self, value: Any, name: str) -> Any:
        """Write one value; what can't be carried is named, and None stands for it."""
        try:
            return self.encoder.encode(value)
        except NotCarried as failed:
            self._lose(f"{name}{failed.place}", failed)
            return None

    def edits(self, changed: Iterable[tuple[Seen, Look]]) -> list[Node]:
        """Write changes of objects that were there before."""
        found = []
        for seen, now in changed:
            try:
                edit = self._edit(seen, now)
            except NotCarried as failed:
                if not _is_quiet(seen):
                    self._lose(spell(seen.place) + failed.place, failed)
                continue
            if edit is not None:
                found.append({"at": self._place(seen.place), "kind": seen.kind.value, **edit})
        return found

    def _edit(self, seen: Seen, now: Look) -> Node | None:
        value = seen.value
        match seen.kind:
            case Kind.LIST | Kind.SET:
                return {"items": [self.encoder.encode(item) for item in value]}
            case Kind.DICT:
                return {**self._pairs(seen, value), "tensors": seen.step[1] in _TENSOR_TABLES}
            case Kind.TENSOR:
                return codec.tensor_node(value)
            case Kind.ARRAY:
                return {"array": self.encoder.encode(_fresh(value))}
            case Kind.GENERATOR:
                return {"state": self.encoder.encode(looks.generator_state(value))}
            case Kind.OBJECT:
                return self._object(seen, now)
            case Kind.FUNCTION | Kind.CLASS | Kind.MODULE:
                return self._attributes(seen, looks.inside(value, self.observation.users))
        return None

    def _pairs(self, seen: Seen, value: Any) -> Node:
        """The entries of a dictionary; one that can't be carried leaves the caller's, and is named."""
        pairs, left = [], []
        for key, item in kinds.base_of(value).items(value):
            written = self.encoder.encode(key)
            try:
                pairs.append((written, self.encoder.encode(item)))
            except NotCarried as failed:
                left.append(written)
                if not _is_quiet(seen):
                    self._lose(f"{spell(seen.place)}[{key!r}]{failed.place}", failed)
        return {"items": pairs, "left": left}

    def _attributes(self, seen: Seen, own: dict[str, Any]) -> Node:
        before = dict(zip(seen.before.keys, seen.before.held, strict=False))
        written, missing = {}, object()
        for name, held in own.items():
            if looks.same(before.get(name, missing), held):
                continue
            try:
                written[name] = self.encoder.encode(held)
            except NotCarried as failed:
                if not _is_quiet(seen):
                    self._lose(f"{spell(seen.place)}.{name}{failed.place}", failed)
        return {"attrs": written, "gone": [name for name in before if isinstance(name, str) and name not in own]}

    def _object(self, seen: Seen, now: Look) -> Node:
        value = seen.value
        own = kinds.attributes(value)
        count = _own_count(seen.before)
        shallow = Seen(value, seen.parent, seen.step, seen.kind, Look(None, seen.before.keys[:count], seen.before.held[:count]))
        node = self._attributes(shallow, own)
        name = kinds.by_name(type(value))
        if name is not None:
            node["module"], node["name"] = name
        items_before = Look(None, seen.before.keys[count:], seen.before.held[count:])
        items_now = Look(None, now.keys[len(own) :], now.held[len(own) :])
        if isinstance(value, dict) and not items_before.same(items_now):
            node |= self._pairs(seen, value)
        elif isinstance(value, list) and not items_before.same(items_now):
            node["elements"] = [self.encoder.encode(item) for item in list.__iter__(value)]
        elif isinstance(value, set):
            node["elements"] = [self.encoder.encode(item) for item in set.__iter__(value)]
        return node

    def _lose(self, name: str, failed: NotCarried) -> None:
        self.lost.append(f"{name} ({failed.what})")


def _own_count(look: Look) -> int:
    return look.facts[1] if isinstance(look.facts, tuple) else len(look.keys)


def _fresh(value: Any) -> Any:
    """A copy that the encoder doesn't take for the object that was there before."""
    return bytearray(value) if isinstance(value, bytearray) else value.copy()


def _is_quiet(seen: Seen) -> bool:
    """Say whether it is the innards of a library's object (or of a container in one) that were lost."""
    holder: Seen | None = seen
    while holder is not None and holder.kind is not Kind.OBJECT:
        holder = holder.parent
    return holder is not None and kinds.quiet(type(holder.value))


def collect(
    observation: Observation,
    text: Callable[[str], str] = str,
    *,
    trainer: Any = None,
    returned: Any = None,
    extra: dict[str, Any] | None = None,
    states: dict[str, Any] | None = None,
    kept: dict[str, list[str]] | None = None,
) -> dict[str, Any]:
    """Return what a call left as one structure that ``torch.save`` writes and ``weights_only=True`` reads.

    ``extra`` holds further values by name (random states); they are carried like everything else, and so are ``states``, which
    go with the module (optimizers). ``module`` is what can stay away for now: all that changed in the module, and what only
    that leads to. ``heavy`` says whether there is a tensor in it, ``kept`` names checkpoints, as plain data.
    """
    collector = Collector(observation, text)
    changed = observation.changed()
    edits = collector.edits(each for each in changed if not _is_of_module(each[0]))
    callbacks = [] if trainer is None else [collector.value(callback, "callbacks") for callback in trainer.callbacks]
    result = collector.value(returned, "the returned value")
    others = {name: collector.value(value, name) for name, value in (extra or {}).items()}
    nodes = len(collector.encoder.nodes)
    module: dict[str, Any] = {
        "edits": collector.edits(each for each in changed if _is_of_module(each[0])),
        "extra": {name: collector.value(value, name) for name, value in (states or {}).items()},
        "nodes": collector.encoder.nodes[nodes:],
    }
    return {
        "format": FORMAT,
        "users": sorted(observation.users),
        "nodes": collector.encoder.nodes[:nodes],
        "edits": edits,
        "callbacks": callbacks,
        "returned": result,
        "extra": others,
        "lost": collector.lost + [f"{failed.place} ({failed.what})" for failed in collector.encoder.lost],
        "kept": {what: [text(path) for path in paths] for what, paths in (kept or {}).items()},
        "heavy": any(each.get("k") == "tensor" for each in (*module["edits"], *module["nodes"])),
        "module": module,
    }


def _is_of_module(seen: Seen) -> bool:
    return seen.place[0] == ("root", "model")
