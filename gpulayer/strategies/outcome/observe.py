"""Everything that a call may change, as it was before the call: each object with the place where the caller has its own."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from gpulayer.strategies import kinds
from gpulayer.strategies.kinds import Kind
from gpulayer.strategies.outcome import looks
from gpulayer.strategies.outcome.looks import Look, Step

BUDGET = 200_000
"""Objects looked at besides the module's own; what lies deeper than that in the user's data is not seen to change."""

_STRUCTURE = frozenset({"_modules", "_parameters", "_buffers"})

Place = tuple[Step, ...]
"""The steps from the roots to an object; the first is ("root", name)."""


_Found = tuple[Any, "Seen | None", Step]


@dataclass(eq=False, slots=True)
class Seen:
    """An object that was there before the call."""

    value: Any
    parent: Seen | None
    step: Step
    kind: Kind
    before: Look

    @property
    def place(self) -> Place:
        steps = []
        at: Seen | None = self
        while at is not None:
            steps.append(at.step)
            at = at.parent
        return tuple(reversed(steps))

    def now(self, users: frozenset[str]) -> Look:
        return looks.look(self.value, users)


class Observation:
    """The objects reachable from ``roots``, shallow first, with how they looked. ``users`` names modules of the user."""

    def __init__(self, roots: Mapping[str, Any], users: frozenset[str] = frozenset(), budget: int = BUDGET) -> None:
        self.users = users
        self._seen: dict[int, Seen] = {}
        with _without_collecting():
            self._look_around(roots, budget)

    def _look_around(self, roots: Mapping[str, Any], budget: int) -> None:
        structure: deque[_Found] = deque()
        waiting: deque[_Found] = deque((root, None, ("root", name)) for name, root in roots.items())
        while structure or (waiting and budget > 0):
            # The module's tree first, whole: no heap of the user's data may hide it.
            budget -= not structure
            value, parent, step = structure.popleft() if structure else waiting.popleft()
            kind = kinds.kind_of(value)
            if kind is Kind.ATOM or id(value) in self._seen:
                continue
            seen = Seen(value, parent, step, kind, looks.look(value, self.users))
            self._seen[id(value)] = seen
            for below, child in looks.children(value, self.users):
                if looks.is_constant(child):
                    continue
                of_module = below[1] in _STRUCTURE if below[0] == "attr" else step[1] in _STRUCTURE
                (structure if of_module else waiting).append((child, seen, below))

    def of(self, value: Any) -> Seen | None:
        """Return what was seen of this very object before the call."""
        seen = self._seen.get(id(value))
        return seen if seen is not None and seen.value is value else None

    def changed(self) -> list[tuple[Seen, Look]]:
        """Return the objects that look different now, reachable or not: an alias may still lead to them."""
        with _without_collecting():
            return [(seen, now) for seen in self._seen.values() if not seen.before.same(now := seen.now(self.users))]


@contextmanager
def _without_collecting() -> Iterator[None]:
    """Keep the garbage collector from walking through all that is made here, again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def resolve(place: Place, roots: Mapping[str, Any], users: frozenset[str]) -> Any:
    """Walk to the object at a place; raises ``LookupError`` where the way ends."""
    (_, root), *steps = place
    if root not in roots:
        raise LookupError(f"no {root} here")
    value = roots[root]
    for step in steps:
        value = _go(value, step, users)
    return value


def _go(value: Any, step: Step, users: frozenset[str]) -> Any:
    kind, key = step
    match kind:
        case "item":
            return value[key]
        case "nth":
            return value[key]
        case "value":
            return list(value.values())[key]
        case "key":
            return list(value)[key]
        case "self":
            return value.__self__
        case "cell":
            return looks.inside(value, users)[key]
    if kinds.kind_of(value) in (Kind.CLASS, Kind.MODULE):
        return vars(value)[key]
    return kinds.attribute(value, key)


def spell(place: Place) -> str:
    """Write a place as a user would."""
    text = ""
    for kind, key in place:
        match kind:
            case "root":
                text = str(key)
            case "attr":
                text += f".{key}"
            case "cell":
                text += f"<{key}>"
            case "self":
                text += ".__self__"
            case _:
                text += f"[{key!r}]"
    return text
