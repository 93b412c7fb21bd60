"""What the ranks of a task are to be told of the calls of their script; pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpulayer.spec.calls import CallView, Go
from gpulayer.spec.files import Blob
from gpulayer.spec.records import Order
from gpulayer.spec.states import Reason


@dataclass
class Told:
    """What one rank has been told."""

    goes: set[int] = field(default_factory=set)
    begins: set[int] = field(default_factory=set)
    end: bool = False
    interrupted: bool = False


@dataclass(frozen=True)
class SayGo:
    go: Go


@dataclass(frozen=True)
class SayBegin:
    call: int
    state: Blob | None


@dataclass(frozen=True)
class SayEnd:
    pass


@dataclass(frozen=True)
class SayInterrupted:
    pass


Saying = SayGo | SayBegin | SayEnd | SayInterrupted


def due(order: Order, told: Told) -> list[Saying]:
    """Return what a rank has yet to hear, in the order of the calls."""
    sayings: list[Saying] = []
    if order.stop is not None and order.stop.reason is Reason.CANCELLED_BY_USER and not told.interrupted:
        sayings.append(SayInterrupted())
    awaited = False  # a caller that lets a call go and leaves at once is not heard to leave before that call has begun
    for view in sorted(order.calls, key=lambda view: view.call):
        if view.go is not None and view.call not in told.goes:
            sayings.append(SayGo(view.go))
        if view.go is not None and view.begun and view.call not in told.begins:
            sayings.append(SayBegin(view.call, view.go.state))
        awaited = awaited or (view.go is not None and not view.begun)
    if order.caller_ended and not told.end and not awaited:
        sayings.append(SayEnd())
    return sayings


def note(told: Told, saying: Saying) -> None:
    """Change ``told`` by what was said."""
    match saying:
        case SayGo(go):
            told.goes.add(go.call)
        case SayBegin(call):
            told.begins.add(call)
        case SayEnd():
            told.end = True
        case SayInterrupted():
            told.interrupted = True


def to_store(order: Order, stored: set[int]) -> list[int]:
    """Return the calls that ended well on every rank and whose output files this node has not stored yet."""
    world = order.num_workers * order.procs_per_worker
    return [view.call for view in order.calls if view.call not in stored and not view.settled and _all_well(view, world)]


def _all_well(view: CallView, world: int) -> bool:
    return len({outcome.rank for outcome in view.outcomes if outcome.status == "ok"}) == world
