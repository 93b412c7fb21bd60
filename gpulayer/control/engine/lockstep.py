"""The calls of a script: what the caller's words and the ranks' reports change, and when a call may begin."""

from __future__ import annotations

from typing import Any

from gpulayer.control.engine import agreement, causes, phases
from gpulayer.control.engine.conclusion import conclude
from gpulayer.control.engine.endings import stopped
from gpulayer.control.engine.moves import Step
from gpulayer.control.engine.stopping import end, fail
from gpulayer.spec.calls import Arrival, CallView, Go, Outcome
from gpulayer.spec.causes import Evidence
from gpulayer.spec.files import Blob
from gpulayer.spec.records import JobRecord, Stop
from gpulayer.spec.states import JobState, Reason


def go(record: JobRecord, go: Go, now: float) -> Step:
    """Let a call begin once every rank has arrived; changes nothing where the job no longer takes calls."""
    step = Step(record)
    if not _takes_calls(record) or agreement.view_of(record, go.call).go is not None:
        return step
    step = _change_view(step, go.call, go=go).change(hold_since=None)
    step = step.tell("call_go", now, call=go.call, function=go.fingerprint.function)
    return conclude(_judge(step, go.call, now), now)


def send_state(record: JobRecord, call: int, blob: Blob, now: float) -> Step:
    """Give the caller's tensors for a call that needs them."""
    step = Step(record)
    view = agreement.view_of(record, call)
    if record.state.terminal or record.stop or view.go is None or not view.needs_state:
        return step
    step = _change_view(step, call, go=view.go.model_copy(update={"state": blob}))
    return conclude(_judge(step, call, now), now)


def farewell(record: JobRecord, now: float) -> Step:
    """Note that no further call will come; a job that still queues without a call to make ends at once."""
    step = Step(record)
    if record.state.terminal or record.caller_ended:
        return step
    step = step.change(caller_ended=True, hold_since=None).tell("caller_ended", now)
    if record.state is JobState.QUEUED and not any(view.go for view in record.calls):
        return end(step, stopped(Stop(reason=Reason.CALLER_ENDED)), now)
    latest = phases.latest_go(record)
    return conclude(_judge(step, latest.call, now) if latest else step, now)


def on_arrival(step: Step, arrival: Arrival, now: float) -> Step:
    """A rank stands at a call, or left the script."""
    view = agreement.view_of(step.record, arrival.call)
    left = arrival.fingerprint is None
    if any(each.rank == arrival.rank and (each.fingerprint is None) == left for each in view.arrivals):
        return step
    told = arrival.model_copy(update={"at": now})
    step = _change_view(step, arrival.call, arrivals=(*view.arrivals, told))
    step = step.tell("call_arrived", now, call=arrival.call, rank=arrival.rank, left=left)
    return _judge(step, arrival.call, now)


def on_outcome(step: Step, node_rank: int, outcome: Outcome, now: float) -> Step:
    """A rank recorded what a call left; an outcome that isn't well fails the job."""
    view = agreement.view_of(step.record, outcome.call)
    if any(each.rank == outcome.rank for each in view.outcomes):
        return step
    step = _change_view(step, outcome.call, outcomes=(*view.outcomes, outcome))
    step = step.tell("call_outcome", now, call=outcome.call, rank=outcome.rank, status=outcome.status)
    if outcome.status == "ok":
        return _settle(step, outcome.call, now)
    evidence = Evidence(kind="exception", node_rank=node_rank, rank=outcome.rank, error=outcome.error)
    if causes.is_communication(evidence):
        evidence = evidence.model_copy(update={"kind": "communication"})
    return fail(step, evidence, now)


def on_stored(step: Step, node_rank: int, call: int, now: float) -> Step:
    """A node's output files of a call are stored."""
    view = agreement.view_of(step.record, call)
    if node_rank in view.stored:
        return step
    return _settle(_change_view(step, call, stored=(*view.stored, node_rank)), call, now)


def _takes_calls(record: JobRecord) -> bool:
    return not (record.state.terminal or record.stop or record.caller_ended)


def _change_view(step: Step, call: int, **fields: Any) -> Step:
    view = agreement.view_of(step.record, call).model_copy(update=fields)
    others = [each for each in step.record.calls if each.call != call]
    return step.change(calls=tuple(sorted([*others, view], key=lambda each: each.call)))


def _judge(step: Step, call: int, now: float) -> Step:
    """Begin the call, ask for the caller's state, or find that the ranks are elsewhere."""
    record = step.record
    if record.stop is not None:
        return step
    diverged = agreement.divergence(record)
    if diverged is not None:
        rank = diverged.ranks[0]
        node = rank // record.procs_per_worker
        evidence = Evidence(kind="diverged", node_rank=node, rank=rank, sentence=diverged.sentence)
        return fail(step, evidence, now)
    view = agreement.view_of(record, call)
    ranks = agreement.arrived(view)
    if view.begun or view.go is None or not record.tasks or len(ranks) < record.world_size:
        return step
    if view.go.state is None and _needs_state(view):
        if record.caller_ended:
            sentence = f"Call {call} needs the caller's module, whose state differs from rank 0's, and the caller has ended."
            return fail(step, Evidence(kind="diverged", node_rank=0, rank=0, sentence=sentence), now)
        if view.needs_state:
            return step
        return _change_view(step, call, needs_state=True).tell("call_needs_state", now, call=call)
    return _change_view(step, call, begun=True, needs_state=False).tell("call_begun", now, call=call)


def _needs_state(view: CallView) -> bool:
    wanted = view.go.state_digest if view.go else ""
    rank_0 = next((each.state_digest for each in view.arrivals if each.rank == 0 and each.fingerprint), "")
    return bool(wanted) and wanted != rank_0


def _settle(step: Step, call: int, now: float) -> Step:
    record, view = step.record, agreement.view_of(step.record, call)
    well = sum(each.status == "ok" for each in view.outcomes)
    if view.settled or not record.tasks or well < record.world_size or len(view.stored) < len(record.tasks):
        return step
    return _change_view(step, call, settled=True).tell("call_settled", now, call=call)
