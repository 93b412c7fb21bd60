"""Wishes that a job ends: what a stop changes, and how evidence of a failure becomes one."""

from __future__ import annotations

from gpulayer.control.engine import endings
from gpulayer.control.engine.moves import Step
from gpulayer.spec.causes import Evidence
from gpulayer.spec.records import Stop
from gpulayer.spec.states import JobState, Reason

FAILURE_GRACE_S = 5.0
"""Between SIGTERM and SIGKILL when a part of the job has failed."""


def stop(step: Step, wanted: Stop, now: float) -> Step:
    """Ask that the attempt ends; a queued job ends at once. A second wish may only be harder, and keeps the first reason."""
    record = step.record
    if record.state.terminal:
        return step
    if record.state is JobState.QUEUED:
        return end(step, endings.stopped(wanted), now)
    if wanted.reason is Reason.CALLER_GONE:  # nobody is left who would wait for a graceful end
        wanted = wanted.model_copy(update={"grace_s": min(wanted.grace_s, FAILURE_GRACE_S)})
    old = record.stop or wanted.model_copy(update={"at": now})
    killed = record.stop is not None and record.stop.kill
    grace_s = min(old.grace_s, wanted.grace_s) if killed or not wanted.kill else max(0.0, now - old.at)
    harder = old.model_copy(update={"kill": killed or wanted.kill, "grace_s": grace_s})
    if harder == record.stop:
        return step
    step = step.change(stop=harder, hold_since=None)
    return step.tell("stopping", now, reason=wanted.reason, grace_s=harder.grace_s, kill=harder.kill)


def fail(step: Step, evidence: Evidence, now: float) -> Step:
    """Note evidence of a failure, as of now, and stop all tasks together unless they are being stopped already."""
    record = step.record
    told = evidence.model_copy(update={"at": now})
    if any(each.model_copy(update={"at": now}) == told for each in record.evidence):
        return step
    step = step.change(evidence=(*record.evidence, told))
    if record.stop is not None:
        return step
    return stop(step, Stop(reason=Reason.PEER_FAILED, grace_s=FAILURE_GRACE_S), now)


def end(step: Step, ending: endings.Ending, now: float) -> Step:
    """Write the last state of a job."""
    step = step.move(ending.state, ending.reason, ending.sentence)
    step = step.change(cause=ending.cause, phase=None, hold_since=None, why=(), ended_at=now)
    return step.tell("ended", now, state=ending.state, reason=ending.reason, sentence=ending.sentence)
