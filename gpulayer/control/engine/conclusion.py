"""The end of every step: phase, hold and waits brought up to date, and the job ended or tried again when no task is left."""

from __future__ import annotations

from gpulayer.control.engine import behind, phases
from gpulayer.control.engine.endings import Ending, ending_of
from gpulayer.control.engine.moves import Step
from gpulayer.control.engine.stopping import end
from gpulayer.spec.records import JobRecord
from gpulayer.spec.states import JobState, Reason, TaskState


def conclude(step: Step, now: float) -> Step:
    """Draw the conclusions from what a step changed."""
    record = step.record
    if record.state is not JobState.RUNNING:
        return step
    if record.tasks and not phases.live_tasks(record):
        ending = ending_of(record)
        return _retry(step, ending, now) if _may_retry(record, ending) else end(step, ending, now)
    if record.gated_at is None and phases.all_ready(record):
        step = step.change(gated_at=now)
    return _why(_phase(_hold(step, now), now))


def _may_retry(record: JobRecord, ending: Ending) -> bool:
    return ending.may_retry and record.attempt < record.spec.max_attempts and record.spec.calls is None


def _retry(step: Step, ending: Ending, now: float) -> Step:
    """Queue the job again; the ended tasks stay until the next attempt has its own."""
    step = step.tell("retry", now, reason=ending.reason, sentence=ending.sentence)
    step = step.move(JobState.QUEUED, Reason.RETRY, ending.sentence)
    fresh = {"evidence": (), "why": (), "queued_at": now}
    unset = ("phase", "rendezvous", "stop", "placed_at", "gated_at", "running_at", "hold_since", "progress")
    return step.change(**fresh, **dict.fromkeys(unset))


def _hold(step: Step, now: float) -> Step:
    holds, since = phases.holding(step.record), step.record.hold_since
    if holds == (since is not None):
        return step
    return step.change(hold_since=now if holds else None)


def _why(step: Step) -> Step:
    """Say what the job waits for: a node for what it needs to start, or ranks for each other."""
    record = step.record
    starting = [task for task in record.tasks if task.state is TaskState.ASSIGNED and task.sentence]
    among_ranks = behind.why(record)
    told = tuple(f"{task.worker_id}: {task.sentence}" for task in starting) or ((among_ranks,) if among_ranks else ())
    return step if told == record.why else step.change(why=told)


def _phase(step: Step, now: float) -> Step:
    phase = phases.phase_of(step.record)
    if phase is step.record.phase:
        return step
    return step.change(phase=phase).tell("phase", now, phase=phase)
