"""Why a job waits: every worker's sentences, grouped and counted when there are many."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gpulayer.control.engine.fleet import Fleet, Roster
from gpulayer.control.engine.gangs import Demand
from gpulayer.control.engine.gates import Refusal, refusals
from gpulayer.control.engine.reservations import Reservations
from gpulayer.spec.records import WorkerRecord, WorkerVerdict

_FEW = 8
"""Up to so many workers each get a line of their own."""


@dataclass(frozen=True)
class Answer:
    """One worker's answer to one job."""

    worker: WorkerRecord
    compatible: bool
    refusals: tuple[Refusal, ...]

    @property
    def text(self) -> str:
        return "; ".join(refusal.sentence for refusal in self.refusals)

    @property
    def joins(self) -> str | None:
        """What another worker must have, where nothing could make this one fit; None where something could."""
        return next((refusal.joins for refusal in self.refusals if refusal.joins), None)

    def verdict(self) -> WorkerVerdict:
        sentences = tuple(refusal.sentence for refusal in self.refusals)
        info = self.worker.info
        return WorkerVerdict(worker_id=info.id, worker_name=info.name, compatible=self.compatible, sentences=sentences)


def answers(demand: Demand, roster: Roster, fleet: Fleet, held: Reservations, now: float) -> list[Answer]:
    """Ask every worker."""
    ends_at = demand.ends_at(now)
    wish = demand.wishes[-1]

    def busy(worker: WorkerRecord) -> Refusal | None:
        refusal = fleet.refusal(worker, wish)
        if refusal is None and not held.allows(worker, wish, ends_at):
            holder = held.holder(worker, wish)
            return Refusal(f"is reserved for {holder}, which waits for more workers", f"{holder} has had its turn")
        return refusal

    return [answer(demand, worker, busy) for worker in roster.workers]


def answer(demand: Demand, worker: WorkerRecord, busy: Callable[[WorkerRecord], Refusal | None]) -> Answer:
    """Ask one worker: the lasting gates first, then whether it is free."""
    lasting = tuple(refusals(demand.gates, worker))
    if lasting:
        return Answer(worker, False, lasting)
    refusal = busy(worker)
    return Answer(worker, True, (refusal,) if refusal else ())


def headline(demand: Demand, told: list[Answer], *, never: bool) -> str:
    """Say in one line what a job lacks."""
    compatible = [each for each in told if each.compatible]
    size, free = demand.size, sum(not each.refusals for each in compatible)
    if not told:
        return "no eligible worker: none is registered"
    if never and not compatible:
        return "no eligible worker"
    if never and len(compatible) < size:
        return f"no eligible workers: the job needs {size}, {len(compatible)} could take a share"
    versions = sorted({demand.kinship(each.worker) or "none" for each in compatible})
    if never and len(versions) > 1:
        return f"no eligible workers: the job needs {size} with the same torch version, found {', '.join(versions)}"
    if never:
        return f"no eligible workers: the job needs {size} with devices of their own, and the compatible ones share too few"
    if size == 1:
        return f"waits for a worker: {free} of {len(compatible)} compatible can take it now"
    line = f"waits for {size} workers together: {free} of {len(compatible)} compatible can take a share now"
    if free < size:
        return line
    return f"{line}, but not with {'the same torch version' if len(versions) > 1 else 'devices of their own'}"


def lines(told: Iterable[Answer]) -> tuple[str, ...]:
    """Return ``worker: sentence`` for each worker that refuses; the same sentence of many workers becomes one line."""
    refusing = [each for each in told if each.refusals]
    groups: dict[str, list[str]] = {}
    for each in refusing:
        groups.setdefault(each.text, []).append(each.worker.info.id)
    few = len(refusing) <= _FEW
    return tuple(line for text, ids in groups.items() for line in _lines_of(text, ids, few=few))


def _lines_of(text: str, ids: list[str], *, few: bool) -> list[str]:
    if few or len(ids) == 1:
        return [f"{worker_id}: {text}" for worker_id in ids]
    return [f"{len(ids)} workers ({ids[0]}, {ids[1]}{', ...' if len(ids) > 2 else ''}): {text}"]
