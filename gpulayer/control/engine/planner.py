"""The plan: queued jobs by priority and age, each gang in one step or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gpulayer.control.engine.fleet import Fleet, Roster
from gpulayer.control.engine.gangs import Demand, Gang, choose
from gpulayer.control.engine.reasons import answers, headline, lines
from gpulayer.control.engine.reservations import Reservations
from gpulayer.spec.records import JobRecord, Plan, Snapshot, Waiting, WorkerRecord


def plan(snapshot: Snapshot, now: float) -> Plan:
    """Place what can start now, and say of every other queued job why it can't. Workers are preferred in the given order."""
    return Planning(snapshot.workers, now).run(snapshot.queued)


def in_order(queued: Iterable[JobRecord]) -> list[JobRecord]:
    """Return jobs by priority, then age."""
    return sorted(queued, key=lambda record: (-record.spec.priority, record.created_at, record.id))


@dataclass
class Planning:
    """A plan while it is made."""

    workers: Sequence[WorkerRecord]
    now: float
    roster: Roster = field(init=False)
    fleet: Fleet = field(init=False)
    held: Reservations = field(default_factory=Reservations)
    _blocked: dict[tuple[object, ...], Waiting] = field(default_factory=dict)
    """What jobs that ask for the same were told: a plan only ever has less to give."""

    def __post_init__(self) -> None:
        self.roster = Roster(self.workers)
        self.fleet = Fleet(self.workers)

    def run(self, queued: Iterable[JobRecord]) -> Plan:
        """Go through the queue once."""
        placements, waiting = [], []
        for record in in_order(queued):
            demand = self.demand(record)
            gang = self.place(demand)
            if gang is not None:
                placements.append(gang.choice(demand))
            else:
                waiting.append(self._wait(demand))
        return Plan(placements=tuple(placements), waiting=tuple(waiting))

    def demand(self, record: JobRecord) -> Demand:
        """Work out what a job asks of these workers."""
        return Demand.of(record, self.roster.owners)

    def place(self, demand: Demand) -> Gang | None:
        """Give a job its gang, if one is free and not reserved for others."""
        ends_at = demand.ends_at(self.now)
        if (*demand.key, ends_at) in self._blocked:
            return None
        gang = choose(demand, self.roster, self.fleet, lambda worker, wish: self.held.allows(worker, wish, ends_at))
        if gang is not None:
            for worker, devices in zip(gang.workers, gang.devices, strict=True):
                self.fleet.take(worker, devices, ends_at)
        return gang

    def _wait(self, demand: Demand) -> Waiting:
        key = (*demand.key, demand.ends_at(self.now))
        if key not in self._blocked:
            self._blocked[key] = self._why(demand)
        told = self._blocked[key]
        if not told.never:
            self.held.reserve(demand, self.roster, self.fleet, self.now)
        return told.model_copy(update={"job_id": demand.record.id})

    def _why(self, demand: Demand) -> Waiting:
        never = choose(demand, self.roster, Fleet((), idle=True)) is None
        told = answers(demand, self.roster, self.fleet, self.held, self.now)
        sentences = (headline(demand, told, never=never), *lines(told))
        return Waiting(job_id=demand.record.id, never=never, sentences=sentences)
