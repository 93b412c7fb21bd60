"""The scheduler: which queued jobs start now, on which workers, and why the others don't."""

from __future__ import annotations

from gpulayer.control.engine.explanation import explain
from gpulayer.control.engine.fleet import Fleet
from gpulayer.control.engine.gangs import Demand
from gpulayer.control.engine.planner import plan
from gpulayer.control.engine.reasons import answer
from gpulayer.spec.records import JobRecord, WorkerRecord, WorkerVerdict

__all__ = ["explain", "plan", "verdict"]


def verdict(record: JobRecord, worker: WorkerRecord, now: float) -> WorkerVerdict:
    """Return what one worker answers to a job, by itself: what others on its machine hold is the plan's to know."""
    demand, fleet = Demand.of(record), Fleet([worker])
    return answer(demand, worker, lambda each: fleet.refusal(each, demand.wishes[-1])).verdict()
