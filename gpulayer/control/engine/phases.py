"""What a job is doing within its state, read from its tasks and calls."""

from __future__ import annotations

from gpulayer.spec.calls import CallView
from gpulayer.spec.records import JobRecord, TaskRecord
from gpulayer.spec.states import JobState, Phase

ORDER = (Phase.PREPARING, Phase.GATING, Phase.RUNNING, Phase.HOLDING, Phase.STOPPING, Phase.UPLOADING)
"""Phases in the order in which a task goes through them."""


def is_later(new: Phase, old: Phase) -> bool:
    """Whether a task may go from ``old`` on to ``new``; a late report never takes it back."""
    return ORDER.index(new) > ORDER.index(old)


def live_tasks(record: JobRecord) -> list[TaskRecord]:
    """Return the tasks that may still have processes."""
    return [task for task in record.tasks if not task.state.terminal]


def all_ready(record: JobRecord) -> bool:
    """Whether every task of the attempt has been prepared."""
    return bool(record.tasks) and all(task.phase is not Phase.PREPARING for task in record.tasks)


def latest_go(record: JobRecord) -> CallView | None:
    """Return the latest call that the caller let go."""
    return max((view for view in record.calls if view.go), key=lambda view: view.call, default=None)


def holding(record: JobRecord) -> bool:
    """Whether every rank waits for the caller: at a call without a go, or after one that has settled."""
    if record.spec.calls is None or record.state is not JobState.RUNNING or record.stop or record.caller_ended:
        return False
    latest = latest_go(record)
    if latest is not None:
        return latest.settled
    ranks = record.world_size
    return ranks > 0 and any(sum(each.fingerprint is not None for each in view.arrivals) == ranks for view in record.calls)


def phase_of(record: JobRecord) -> Phase | None:
    """Return the phase of the job as a whole: that of its slowest live task, unless it stops or holds."""
    if record.state is not JobState.RUNNING:
        return None
    live = [task.phase for task in live_tasks(record)]
    if not live:
        return record.phase
    slowest = min(live, key=ORDER.index)
    if record.stop and slowest is not Phase.UPLOADING:
        return Phase.STOPPING
    return Phase.HOLDING if holding(record) else slowest
