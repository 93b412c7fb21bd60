"""Everything that a call may change, as it was before the call: each object with the place where the caller has its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpulayer.strategies import kinds
from gpulayer.strategies.kinds import Kind
from gpulayer.strategies.outcome import looks
from gpulayer.strategies.outcome.looks import Look, Step

BUDGET = 300_000
"""Objects looked at; what lies deeper than that in the user's data is not seen to change."""

Place = tuple[Step, ...]
"""The steps from the roots to an object; the first is ("root", name)."""


@dataclass(eq=False)
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
        waiting: deque[tuple[Any, Seen | None, Step]] = deque((root, None, ("root", name)) for name, root in roots.items())
        while waiting and len(self._seen) < budget:
            value, parent, step = waiting.popleft()
            kind = kinds.kind_of(value)
            if kind is Kind.ATOM or id(value) in self._seen:
                continue
            seen = Seen(value, parent, step, kind, looks.look(value, users))
            self._seen[id(value)] = seen
            waiting.extend((child, seen, below) for below, child in looks.children(value, users))

    def of(self, value: Any) -> Seen | None:
        """Return what was seen of this very object before the call."""
        seen = self._seen.get(id(value))
        return seen if seen is not None and seen.value is value else None

    def changed(self) -> Iterator[tuple[Seen, Look]]:
        """Return the objects that look different now, reachable or not: an alias may still lead to them."""
        for seen in self._seen.values():
            now = seen.now(self.users)
            if not seen.before.same(now):
                yield seen, now


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
    return kinds.attributes(value)[key]


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
