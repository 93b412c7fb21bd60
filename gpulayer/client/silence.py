"""Says that a plane does not answer, once that has lasted, and that it does again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from gpulayer.plane import Plane

AFTER_S = 3.0
"""A restart of a server is over sooner and needs no words."""


@runtime_checkable
class Distant(Protocol):
    """A plane that may be away for a while."""

    @property
    def silent_s(self) -> float: ...


class Silence:
    """Looks now and then whether a plane answers; ``say`` gets a line at each turn."""

    def __init__(self, plane: Plane, say: Callable[[str], object]) -> None:
        self._plane = plane
        self._say = say
        self._lasts = False

    def look(self) -> None:
        silent_s = self._plane.silent_s if isinstance(self._plane, Distant) else 0.0
        if not self._lasts and silent_s >= AFTER_S:
            self._lasts = True
            self._say("the plane does not answer; asking again")
        elif self._lasts and not silent_s:
            self._lasts = False
            self._say("the plane answers again")
