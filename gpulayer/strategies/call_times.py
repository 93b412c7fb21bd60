"""When the calls of a job ran, by the clocks of its machines: which of its files the script wrote between its calls."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from gpulayer.spec.calls import CallView
from gpulayer.spec.files import Artifact
from gpulayer.spec.records import JobRecord

_TICK_S = 0.01
"""How far the time of a file may lie before its writing: kernels stamp files by their last tick."""


@dataclass(frozen=True)
class _Span:
    began: float
    ended: float


def outside(job: JobRecord) -> Callable[[Artifact], bool]:
    """Return what says of a file that it was last written by the script itself, before or between its calls.

    In doubt it wasn't: for a file with a time from before the job, or where a rank did not say when its call began.
    """
    machines = {task.node_rank: task.machine for task in job.tasks}
    spans = {machine: _spans(job, machine, machines) for machine in set(machines.values())}

    def is_outside(artifact: Artifact) -> bool:
        found = spans.get(machines.get(int(artifact.path.partition("/")[0].removeprefix("node")), ""))
        if found is None or artifact.mtime < job.created_at:
            return False
        return not any(span.began - _TICK_S <= artifact.mtime <= span.ended for span in found)

    return is_outside


def _spans(job: JobRecord, machine: str, machines: dict[int, str]) -> list[_Span]:
    """Return when calls ran on one machine, whose nodes share their files; the latest call has no end yet."""
    called = sorted((view for view in job.calls if view.begun), key=lambda view: view.call)
    found = [_span(job, view, machine, machines) for view in called]
    if found:
        found[-1] = _Span(found[-1].began, math.inf)
    return found


def _span(job: JobRecord, view: CallView, machine: str, machines: dict[int, str]) -> _Span:
    here = [each for each in view.outcomes if machines.get(each.rank // job.procs_per_worker) == machine]
    began = [each.began for each in here if each.began is not None]
    # No rank begins before all have arrived, so the first to begin does so after the last line of script code.
    return _Span(min(began, default=-math.inf), max((each.at for each in here), default=math.inf))
