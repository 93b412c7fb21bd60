"""Leases: who has not been heard from for longer than they promised, counting only time in which the plane could hear."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

LATE = 3.0
"""A tick that comes after so many beats, or from a clock set back, tells of a time in which nobody could be heard."""


@dataclass(frozen=True)
class Hearing:
    """Since when the plane could hear without a break, and when it last looked at the clock."""

    hearing_since: float
    ticked_at: float

    @staticmethod
    def begin(now: float) -> Hearing:
        """A plane that starts has heard nobody: everyone gets a full period."""
        return Hearing(now, now)

    def tick(self, now: float, beat_s: float) -> Hearing:
        """Return the hearing after a tick, which was due ``beat_s`` after the one before."""
        in_time = self.ticked_at <= now <= self.ticked_at + LATE * beat_s
        return Hearing(self.hearing_since if in_time else now, now)


def lost_workers(heard: Mapping[str, float], hearing_since: float, now: float, lease_s: float) -> tuple[str, ...]:
    """Return the workers whose lease has passed; ``heard`` says when each was last heard from."""
    return tuple(name for name, at in heard.items() if now - max(at, hearing_since) > lease_s)


def callers_gone(heard: Mapping[str, float], hearing_since: float, now: float, leases: Mapping[str, float]) -> tuple[str, ...]:
    """Return the jobs (the keys of ``leases``) whose callers were not heard from for as long as each job allows.

    ``heard`` says when each job's caller was last heard from; one who never was counts from ``hearing_since`` on.
    """
    return tuple(name for name, lease_s in leases.items() if now - max(heard.get(name, hearing_since), hearing_since) > lease_s)
