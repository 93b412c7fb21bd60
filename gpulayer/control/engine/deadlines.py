"""What becomes due when nobody reports anything: timeouts, the rendezvous, held ranks, stragglers, kills."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from gpulayer.control.engine import agreement, behind, endings, losses, phases
from gpulayer.control.engine.conclusion import conclude
from gpulayer.control.engine.moves import Step
from gpulayer.control.engine.stopping import end, fail, stop
from gpulayer.spec.causes import Evidence
from gpulayer.spec.records import JobRecord, Stop
from gpulayer.spec.states import JobState, Reason, TaskState

Deadline = tuple[float, Callable[[Step, float], Step]]
"""When, and what then: each action takes its own deadline away."""


SILENCE_S = 60.0
"""After a kill, a worker has so long to say that a task's processes are gone: the kernel takes up to 10 s, a report a few."""
UPLOAD_S = 1500.0
"""So long may a task store its outputs. Its worker gives up before, and says so."""


def tick(record: JobRecord, now: float, hearing_since: float = -math.inf) -> Step:
    """Do everything that is due, the earliest first.

    Whoever owes a word (a rank, a worker, a caller) owes it only while the plane can hear, which is since ``hearing_since``.
    """
    step = Step(record)
    while True:
        due = [each for each in _deadlines(step.record, hearing_since) if each[0] <= now]
        if not due:
            return step
        _, act = min(due, key=lambda each: each[0])
        step = conclude(act(step, now), now)


def next_deadline(record: JobRecord) -> float | None:
    """Return the time at which ``tick`` will next change something; None when only reports can."""
    return min((at for at, _ in _deadlines(record, -math.inf)), default=None)


def _deadlines(record: JobRecord, hearing_since: float) -> Iterator[Deadline]:
    spec = record.spec
    if record.state is JobState.QUEUED:
        if spec.queue_timeout_s is not None:
            yield record.queued_at + spec.queue_timeout_s, _queue_timeout
    elif record.state is JobState.RUNNING:
        yield from _silences(record, hearing_since)
        if record.stop is None:
            yield from _running_deadlines(record, hearing_since)
        elif not record.stop.kill:
            yield record.stop.at + record.stop.grace_s, _kill


def _silences(record: JobRecord, hearing_since: float) -> Iterator[Deadline]:
    """Yield when each task whose worker says nothing more of it is given up."""
    for task in phases.live_tasks(record):
        if task.uploading_at is not None:
            sentence = f"{losses.name(record, task.node_rank)} has not said within {UPLOAD_S:g} s that the outputs are stored."
            yield max(task.uploading_at, hearing_since) + UPLOAD_S, _gives_up(task.node_rank, sentence)
        elif record.stop is not None and record.stop.kill:
            killed_at = max(record.stop.at + record.stop.grace_s, hearing_since)
            who = losses.name(record, task.node_rank)
            sentence = f"{who} has not said that its processes are gone, {SILENCE_S:g} s after they were to be killed."
            yield killed_at + SILENCE_S, _gives_up(task.node_rank, sentence)


def _gives_up(node_rank: int, sentence: str) -> Callable[[Step, float], Step]:
    return lambda step, now: losses.give_up(step, {node_rank: sentence}, Reason.WORKER_LOST, now)


def _running_deadlines(record: JobRecord, hearing_since: float) -> Iterator[Deadline]:
    spec = record.spec
    if spec.timeout_s is not None and record.running_at is not None:
        yield record.running_at + spec.timeout_s, _timeout
    if record.gated_at is not None and _not_joined(record):
        yield max(record.gated_at, hearing_since) + spec.rendezvous_timeout_s, _rendezvous_timeout
    if behind.not_started(record):
        started_at = max(task.running_at or 0.0 for task in record.tasks)
        yield max(started_at, hearing_since) + spec.rendezvous_timeout_s, _start_timeout
    if spec.calls is None:
        return
    if record.hold_since is not None:
        yield max(record.hold_since, hearing_since) + spec.calls.idle_limit_s, _idle_limit
    since = _first_left(record)
    if since is not None:
        yield max(since, hearing_since) + spec.calls.straggler_grace_s, _straggler


def _queue_timeout(step: Step, now: float) -> Step:
    record = step.record
    why = f" {record.why[0]}" if record.why else ""
    sentence = f"It was in the queue for longer than its queue timeout of {record.spec.queue_timeout_s:g} s.{why}"
    return end(step, endings.stopped(Stop(reason=Reason.QUEUE_TIMEOUT, sentence=sentence)), now)


def _timeout(step: Step, now: float) -> Step:
    spec = step.record.spec
    sentence = f"It ran for longer than its timeout of {spec.timeout_s:g} s."
    return stop(step, Stop(reason=Reason.TIMEOUT, sentence=sentence, grace_s=spec.grace_s), now)


def _kill(step: Step, now: float) -> Step:
    wish = step.record.stop
    assert wish is not None
    return stop(step, wish.model_copy(update={"kill": True}), now)


def _not_joined(record: JobRecord) -> list[int]:
    """Return the nodes of a gang that are ready and haven't started."""
    if len(record.tasks) < 2:
        return []
    return [task.node_rank for task in record.tasks if task.state is TaskState.ASSIGNED]


def _rendezvous_timeout(step: Step, now: float) -> Step:
    record = step.record
    missing = [0] if record.rendezvous is None else _not_joined(record)
    names = ", ".join(losses.name(record, node) for node in missing)
    verb = "has" if len(missing) == 1 else "have"
    what = f"{verb} not taken a port" if record.rendezvous is None else f"{verb} not joined"
    sentence = f"{names} {what} after {record.spec.rendezvous_timeout_s:g} s."
    return fail(step, Evidence(kind="rendezvous", node_rank=missing[0], sentence=sentence), now)


def _start_timeout(step: Step, now: float) -> Step:
    record, missing = step.record, behind.not_started(step.record)
    who, limit_s = behind.named(record, missing), record.spec.rendezvous_timeout_s
    sentence = f"{who} {behind.have(missing)} not started {limit_s:g} s after torchrun had on every node."
    node = missing[0] // record.procs_per_worker
    return fail(step, Evidence(kind="rendezvous", node_rank=node, rank=missing[0], sentence=sentence), now)


def _idle_limit(step: Step, now: float) -> Step:
    """Let held ranks go, as the caller's end would; the job then ends well."""
    calls = step.record.spec.calls
    assert calls is not None
    sentence = f"Its ranks held for {calls.idle_limit_s:g} s without a further call, and were let go."
    step = step.change(caller_ended=True, hold_since=None, reason=Reason.IDLE_LIMIT, sentence=sentence)
    return step.tell("idle_limit", now, idle_limit_s=calls.idle_limit_s)


def _first_left(record: JobRecord) -> float | None:
    """Return when the first rank left the script, while another is still in it."""
    gone = [arrival.at for arrival in agreement.left(record).values()]
    gone += [task.ended_at for task in record.tasks if task.state is TaskState.SUCCEEDED and task.ended_at is not None]
    return min(gone) if gone and _stragglers(record) else None


def _stragglers(record: JobRecord) -> list[int]:
    left, procs = agreement.left(record), record.procs_per_worker
    return [
        rank
        for task in phases.live_tasks(record)
        for rank in range(task.node_rank * procs, (task.node_rank + 1) * procs)
        if rank not in left
    ]


def _straggler(step: Step, now: float) -> Step:
    record, behind = step.record, _stragglers(step.record)
    assert record.spec.calls is not None
    names = "Rank " + str(behind[0]) if len(behind) == 1 else "Ranks " + ", ".join(map(str, behind))
    verb = "was" if len(behind) == 1 else "were"
    sentence = (
        f"{names} {verb} still in the script {record.spec.calls.straggler_grace_s:g} s after the first other rank had left it."
    )
    node = behind[0] // record.procs_per_worker
    return fail(step, Evidence(kind="straggler", node_rank=node, rank=behind[0], sentence=sentence), now)
