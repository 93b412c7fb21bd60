"""What a worker's report changes; a report of a passed attempt or an ended task changes nothing."""

from __future__ import annotations

from gpulayer.control.engine import behind, lockstep, losses, phases
from gpulayer.control.engine.conclusion import conclude
from gpulayer.control.engine.moves import Step
from gpulayer.control.engine.stopping import FAILURE_GRACE_S, fail, stop
from gpulayer.spec.causes import Evidence, EvidenceKind
from gpulayer.spec.records import ALL_PAIRS_UP_TO, JobRecord, RendezvousPoint, Stop, TaskRecord
from gpulayer.spec.reports import (
    CallStored,
    RankArrived,
    RankOutcome,
    RankPassed,
    RankProgress,
    RendezvousTaken,
    Report,
    TaskEnded,
    TaskFault,
    TaskPhase,
    TaskReady,
    TaskRunning,
    TaskStill,
    TaskWaits,
)
from gpulayer.spec.states import Phase, Reason, TaskState

_EVIDENCE: dict[Reason, EvidenceKind] = {
    Reason.PREPARATION_FAILED: "preparation",
    Reason.RENDEZVOUS_FAILED: "rendezvous",
    Reason.SIGNALLED: "signal",
    Reason.STRAGGLER: "straggler",
    Reason.CALLS_DIVERGED: "diverged",
}

_WISHES = frozenset({Reason.CANCELLED_BY_USER, Reason.CALLER_GONE})
"""Stops for which nothing in the job had failed before."""


def advance(record: JobRecord, report: Report, now: float) -> Step:
    """Return the record after a report, or unchanged and without events if it says nothing new."""
    step = Step(record)
    task = _task_of(record, report)
    if task is None:
        return step
    return conclude(_heard(step, task, report, now), now)


def _task_of(record: JobRecord, report: Report) -> TaskRecord | None:
    """Return the live task that the report speaks of."""
    if report.attempt != record.attempt or not 0 <= report.node_rank < len(record.tasks):
        return None
    task = record.tasks[report.node_rank]
    return task if task.worker_id == report.worker_id and not task.state.terminal else None


def _heard(step: Step, task: TaskRecord, report: Report, now: float) -> Step:
    node = task.node_rank
    match report:
        case TaskReady():
            return _ready(step, task, report.preflight)
        case TaskWaits():
            return _waits(step, task, report.sentence, now)
        case RendezvousTaken():
            return _meets(step, task, report.point, now)
        case TaskRunning():
            return _running(step, task, now)
        case TaskPhase():
            return _in_phase(step, task, report.phase, now)
        case TaskFault():
            return fail(step, _placed(report.evidence, node), now)
        case TaskEnded():
            return _ended(step, task, report, now)
        case RankPassed():
            return behind.on_passed(step, report.rank, report.milestone, now) if _hosts(step, node, report.rank) else step
        case TaskStill():
            return behind.on_still(step, task, report.ranks, now)
        case RankArrived():
            return lockstep.on_arrival(step, report.arrival, now) if _hosts(step, node, report.arrival.rank) else step
        case RankOutcome():
            outcome = report.outcome
            return lockstep.on_outcome(step, node, outcome, now) if _hosts(step, node, outcome.rank) else step
        case CallStored():
            return lockstep.on_stored(step, node, report.call, now)
        case RankProgress():
            if not _hosts(step, node, 0):  # it is rank 0 that tells how far a job is
                return step
            old = step.record.progress
            newer = old is None or (report.progress.call, report.progress.at) > (old.call, old.at)
            return step.change(progress=report.progress) if newer else step
        case _:
            return step


def _in_phase(step: Step, task: TaskRecord, phase: Phase, now: float) -> Step:
    if not phases.is_later(phase, task.phase):
        return step
    since = {"uploading_at": now} if phase is Phase.UPLOADING else {}
    return step.change_task(task.node_rank, phase=phase, **since)


def _ready(step: Step, task: TaskRecord, preflight: RendezvousPoint | None) -> Step:
    if task.state is not TaskState.ASSIGNED or task.phase is not Phase.PREPARING:
        return step
    return step.change_task(task.node_rank, phase=Phase.GATING, sentence="", preflight=preflight)


def _waits(step: Step, task: TaskRecord, sentence: str, now: float) -> Step:
    if task.phase is not Phase.PREPARING or task.sentence == sentence:
        return step
    step = step.change_task(task.node_rank, sentence=sentence)
    return step.tell("waiting", now, node_rank=task.node_rank, sentences=[sentence])


def _meets(step: Step, task: TaskRecord, point: RendezvousPoint, now: float) -> Step:
    if task.node_rank != 0 or step.record.rendezvous is not None:
        return step
    proven = "all pairs" if len(step.record.tasks) <= ALL_PAIRS_UP_TO else "each to node 0"
    return step.change(rendezvous=point).tell("gated", now, address=point.address, port=point.port, proven=proven)


def _running(step: Step, task: TaskRecord, now: float) -> Step:
    if task.state is not TaskState.ASSIGNED:
        return step
    phase = Phase.RUNNING if phases.is_later(Phase.RUNNING, task.phase) else task.phase
    step = step.move_task(task.node_rank, TaskState.RUNNING, phase=phase, running_at=now, sentence="")
    record = step.record
    if record.running_at is None:
        step = step.change(running_at=now)
    if all(each.state is not TaskState.ASSIGNED for each in record.tasks):
        step = step.tell("running", now)
    return step


def _ended(step: Step, task: TaskRecord, report: TaskEnded, now: float) -> Step:
    if not report.state.terminal:
        return step
    if report.state is TaskState.SUCCEEDED:
        step = _running(step, task, now)  # its own report of that was lost
    told = {"reason": report.reason, "sentence": report.sentence, "exit_code": report.exit_code}
    if report.state is TaskState.LOST:
        told["sentence"] = losses.told(step.record, task.node_rank, report.sentence)
    state, asked = report.state, step.record.stop
    if state is TaskState.FAILED and asked is not None and asked.reason in _WISHES:  # how it leaves then is no failure
        state, told["reason"] = TaskState.CANCELLED, asked.reason
    step = step.move_task(task.node_rank, state, ended_at=now, **told)
    step = step.tell("task_ended", now, node_rank=task.node_rank, state=state, **told)
    for evidence in report.evidence or _implied(step.record, report):
        step = fail(step, _placed(evidence, task.node_rank), now)
    if report.state is TaskState.SUCCEEDED:
        return behind.judge(step, now)
    return _stop_others(step, report, now)


def _implied(record: JobRecord, report: TaskEnded) -> tuple[Evidence, ...]:
    """Make evidence of a failure that came without any; once a job is stopping, a bare failure tells nothing of the cause."""
    if report.state is not TaskState.FAILED or record.stop is not None:
        return ()
    code = report.exit_code
    number = -code if code is not None and code < 0 else None
    kind = "signal" if number else _EVIDENCE.get(report.reason, "exit")
    return (Evidence(kind=kind, node_rank=report.node_rank, exit_code=code, signal=number, sentence=report.sentence),)


def _stop_others(step: Step, report: TaskEnded, now: float) -> Step:
    """Make sure that a job of which a task didn't succeed is stopping; the reason is the task's when it has one."""
    if step.record.stop is not None:
        return step
    asked = report.state in (TaskState.CANCELLED, TaskState.TIMED_OUT)
    reason = report.reason if asked else Reason.PEER_FAILED
    return stop(step, Stop(reason=reason, sentence=report.sentence if asked else "", grace_s=FAILURE_GRACE_S), now)


def _placed(evidence: Evidence, node_rank: int) -> Evidence:
    return evidence.model_copy(update={"node_rank": node_rank})


def _hosts(step: Step, node_rank: int, rank: int) -> bool:
    return rank // step.record.procs_per_worker == node_rank
