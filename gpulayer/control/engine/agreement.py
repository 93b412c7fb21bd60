"""Whether the caller and all ranks stand at the same call."""

from __future__ import annotations

from dataclasses import dataclass

from gpulayer.control.engine import phases
from gpulayer.spec.calls import Arrival, CallView, Fingerprint
from gpulayer.spec.records import JobRecord


@dataclass(frozen=True)
class Divergence:
    """The ranks that aren't where the caller is, and the sentence that says so."""

    ranks: tuple[int, ...]
    sentence: str


def view_of(record: JobRecord, call: int) -> CallView:
    """Return the plane's view of a call, an empty one if nothing of it is known."""
    return next((view for view in record.calls if view.call == call), CallView(call=call))


def arrived(view: CallView) -> dict[int, Fingerprint]:
    """Return what the ranks that stand at the call say of it, by rank."""
    return {each.rank: each.fingerprint for each in view.arrivals if each.fingerprint is not None}


def left(record: JobRecord) -> dict[int, Arrival]:
    """Return the arrivals of the ranks that left the script, by rank."""
    return {each.rank: each for view in record.calls for each in view.arrivals if each.fingerprint is None}


def same_call(one: Fingerprint, other: Fingerprint) -> bool:
    """Compare two fingerprints; shapes that one side doesn't know can't differ."""
    if not (one.shapes and other.shapes):
        one, other = (each.model_copy(update={"shapes": ""}) for each in (one, other))
    return one == other


def divergence(record: JobRecord) -> Divergence | None:
    """Say how ranks differ from the caller's latest call; None while they agree or are on their way.

    A rank that left from inside the call is not absent, nor is one that raised or was killed: those stories are their own.
    """
    view = phases.latest_go(record)
    if view is None or view.go is None:
        return None
    expected, here = view.go.fingerprint, arrived(view)
    explained = {each.rank for each in record.evidence if each.kind != "diverged"}
    gone = {
        rank: each.call
        for rank, each in left(record).items()
        if each.call <= view.call and rank not in here and rank not in explained
    }
    if gone:
        return Divergence(tuple(sorted(gone)), _absence(sorted(gone), min(gone.values()), expected))
    other = sorted(rank for rank, fingerprint in here.items() if not same_call(fingerprint, expected))
    if other:
        sentence = f"The caller is at {_name(expected)}, {_ranks(other)} at {_name(here[other[0]])}."
        return Divergence(tuple(other), sentence)
    return None


def _absence(ranks: list[int], calls: int, expected: Fingerprint) -> str:
    when = f"after call {calls - 1}" if calls else "before the first call"
    return f"{_ranks(ranks).capitalize()} ended {when}, and the caller is at {_name(expected)}; is it under `is_global_zero`?"


def _ranks(ranks: list[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else "ranks " + ", ".join(map(str, ranks))


def _name(fingerprint: Fingerprint) -> str:
    facts = [f"trainer {fingerprint.trainer}", fingerprint.module]
    if fingerprint.shapes:
        facts.append(f"shapes {fingerprint.shapes[:8]}")
    if fingerprint.ckpt_path is not None:
        facts.append(f"ckpt_path={fingerprint.ckpt_path!r}")
    if fingerprint.max_epochs is not None:
        facts.append(f"max_epochs={fingerprint.max_epochs}")
    return f"call {fingerprint.call} ({fingerprint.function}; {', '.join(facts)})"
