"""Why a job waits, at length: every worker's answer, and the nearest change that would let it run; or how else it stands."""

from __future__ import annotations

from collections import Counter
from itertools import takewhile

from gpulayer.control.engine import phases
from gpulayer.control.engine.fleet import Fleet
from gpulayer.control.engine.gangs import Demand, choose
from gpulayer.control.engine.planner import Planning, in_order
from gpulayer.control.engine.reasons import Answer, answers, headline
from gpulayer.spec.records import Explanation, JobRecord, Snapshot
from gpulayer.spec.states import JobState, Phase, Reason

_ENDED = {
    JobState.SUCCEEDED: "It has succeeded.",
    JobState.FAILED: "It has failed.",
    JobState.CANCELLED: "It was stopped before its end.",
    JobState.TIMED_OUT: "It has run out of time.",
    JobState.LOST: "It was lost.",
}
_DOING = {
    Phase.PREPARING: "It is being prepared",
    Phase.GATING: "Its nodes are ready and are meeting",
    Phase.RUNNING: "It runs",
    Phase.HOLDING: "Its ranks hold until the caller's next call",
    Phase.STOPPING: "It is being stopped",
    Phase.UPLOADING: "Its processes have ended, and its outputs are being stored",
}


def explain(record: JobRecord, snapshot: Snapshot, now: float) -> Explanation:
    """Answer for a job, queued or only thought of, as the next plan would treat it."""
    if record.state is not JobState.QUEUED:
        return Explanation(job_id=record.id, sentence=_standing(record))
    planning = Planning(snapshot.workers, now)
    ahead = _ahead(record, snapshot)
    made = planning.run(ahead)
    demand = planning.demand(record)
    told = answers(demand, planning.roster, planning.fleet, planning.held, now)
    verdicts = tuple(each.verdict() for each in told)
    gang = planning.place(demand)
    if gang is not None:
        names = ", ".join(worker.info.name for worker in gang.workers)
        return Explanation(job_id=record.id, sentence=f"It can start now on {names}.", verdicts=verdicts)
    never = choose(demand, planning.roster, Fleet((), idle=True)) is None
    sentence = headline(demand, told, never=never)
    if not never:
        hopeless = {waiting.job_id for waiting in made.waiting if waiting.never}
        sentence += _higher(record, [each for each in ahead if each.id not in hopeless])
    nearest = _nearest(demand, told)
    return Explanation(job_id=record.id, sentence=sentence, never=never, verdicts=verdicts, nearest=nearest)


def _standing(record: JobRecord) -> str:
    """Say how a job stands that doesn't wait in the queue."""
    if record.state.terminal:
        return f"{_ENDED[record.state]} {record.sentence}".rstrip()
    if record.phase is Phase.STOPPING and record.stop is not None:
        doing = "Its processes are being ended"
        if record.stop.sentence or record.stop.reason is Reason.PEER_FAILED:
            return f"{doing}. {record.stop.sentence or 'A part of it has failed or was lost.'}"
        return f"{doing} ({record.stop.reason})."
    names = ", ".join(task.worker_name or task.worker_id for task in phases.live_tasks(record))
    return " ".join([f"{_DOING[record.phase or Phase.RUNNING]} on {names}.", *record.why])


def _ahead(record: JobRecord, snapshot: Snapshot) -> list[JobRecord]:
    """Return the queued jobs that are served before this one."""
    queue = in_order([*(each for each in snapshot.queued if each.id != record.id), record])
    return list(takewhile(lambda each: each is not record, queue))


def _higher(record: JobRecord, ahead: list[JobRecord]) -> str:
    count = sum(each.spec.priority > record.spec.priority for each in ahead)
    if not count:
        return ""
    jobs = "1 queued job of higher priority comes" if count == 1 else f"{count} queued jobs of higher priority come"
    return f"; {jobs} first, and a steady stream of those can keep it waiting"


def _nearest(demand: Demand, told: list[Answer]) -> str:
    """Say what would have to change at those workers that lack the least, or which others would have to join."""
    closest = sorted(told, key=lambda each: (each.joins is not None, len(each.refusals)))[: demand.size]
    changes: dict[str, list[str]] = {}
    joining = Counter(each.joins for each in closest if each.joins is not None)
    missing = demand.size - len(closest)
    if missing:
        wish = demand.wishes[-1]
        joining[wish.in_words() if joining and wish is not None else ""] += missing
    for each in closest:
        if each.refusals and each.joins is None:
            change = " and ".join(refusal.change for refusal in each.refusals)
            changes.setdefault(change, []).append(each.worker.info.name)
    wanted = [f"on {_names(names)} if {change}" for change, names in changes.items()]
    wanted += [f"if {_joins(count, having)}" for having, count in joining.items()]
    if not wanted:
        versions = sorted({demand.kinship(each.worker) or "none" for each in closest})
        same = f"had the same torch version (now {', '.join(versions)})" if len(versions) > 1 else "had more devices"
        wanted.append(f"if the workers that are free {same}")
    return f"It would start {' and '.join(wanted)}."


def _joins(count: int, having: str) -> str:
    """Say how many workers would have to join, and what each must have."""
    if having:
        return f"a worker with {having} joins" if count == 1 else f"{count} workers with {having} each join"
    return "1 more worker joins" if count == 1 else f"{count} more workers join"


def _names(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{len(names)} workers ({names[0]}, {names[1]}, ...)"
