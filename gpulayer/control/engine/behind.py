"""Ranks for which others of their job wait: who they are, how that is said, and when it is a failure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from gpulayer.control.engine import agreement, losses, phases
from gpulayer.control.engine.moves import Step
from gpulayer.control.engine.stopping import fail
from gpulayer.spec.causes import Evidence, EvidenceKind
from gpulayer.spec.job import DistributedJob
from gpulayer.spec.ranks import Milestone
from gpulayer.spec.records import JobRecord, TaskRecord
from gpulayer.spec.states import JobState, TaskState

_MEETING = "torch.distributed.init_process_group"
_NAMED = 8
"""So many ranks are named in a sentence."""


@dataclass(frozen=True)
class Behind:
    """The ranks that are behind. Once all of them have shown no sign of life for ``grace_s``, the job fails."""

    kind: EvidenceKind
    ranks: tuple[int, ...]
    grace_s: float
    waiting: str
    failed: str


def on_passed(step: Step, rank: int, milestone: Milestone, now: float) -> Step:
    """A rank is one step further, which is a sign of life as well."""
    ranks = step.record.ranks
    there: tuple[int, ...] = getattr(ranks, milestone)
    if rank in there:
        return step
    still = tuple(each for each in ranks.still if each != rank)
    passed = {milestone: tuple(sorted((*there, rank))), "still": still}
    return judge(step.change(ranks=ranks.model_copy(update=passed)), now)


def on_still(step: Step, task: TaskRecord, told: Collection[int], now: float) -> Step:
    """A worker says which of its ranks show no sign of life."""
    record = step.record
    own = _hosted(record, task.node_rank)
    still = tuple(sorted({*record.ranks.still, *own} - (set(own) - set(told))))
    if still == record.ranks.still:
        return step
    return judge(step.change(ranks=record.ranks.model_copy(update={"still": still})), now)


def judge(step: Step, now: float) -> Step:
    """Fail a job in which nobody is left of whom the others could expect something."""
    record, found = step.record, behind(step.record)
    if found is None or not set(found.ranks) <= set(record.ranks.still):
        return step
    rank = found.ranks[0]
    node = rank // record.procs_per_worker
    return fail(step, Evidence(kind=found.kind, node_rank=node, rank=rank, sentence=found.failed), now)


def behind(record: JobRecord) -> Behind | None:
    """Return the ranks that others wait for at the end of their script, or where all meet for the first time."""
    spec, ranks = record.spec, record.ranks
    if not isinstance(spec, DistributedJob) or record.state is not JobState.RUNNING or record.stop is not None:
        return None
    everyone = range(record.world_size)
    ended = {*ranks.ended, *_of_succeeded(record)}
    left = tuple(rank for rank in everyone if rank not in ended)
    if spec.calls is None and ended and left:
        return _after_end(record, spec, ended, left)
    joined = {*ranks.joined, *ranks.met}
    missing = tuple(rank for rank in everyone if rank not in joined)
    if joined and missing:
        return _not_joined(record, joined, missing)
    met = set(ranks.met)
    inside = tuple(rank for rank in everyone if rank not in met)
    return _not_met(record, inside) if joined and inside else None


def why(record: JobRecord) -> str | None:
    """Say for whom the ranks of a running job wait; None when they don't."""
    found = behind(record)
    return found.waiting if found else _not_come(record)


def patience_s(record: JobRecord, node_rank: int) -> float | None:
    """Return how long a node is to watch its ranks for a sign of life; None while nobody waits for any of them."""
    found = behind(record)
    if found is None or not set(found.ranks) & set(_hosted(record, node_rank)):
        return None
    return found.grace_s


def not_started(record: JobRecord) -> tuple[int, ...]:
    """Return the ranks whose processes are not up although every node of their job has been started."""
    if not isinstance(record.spec, DistributedJob) or any(task.state is TaskState.ASSIGNED for task in record.tasks):
        return ()
    up = {*record.ranks.started, *_of_succeeded(record)}
    return tuple(rank for rank in range(record.world_size) if rank not in up)


def named(record: JobRecord, ranks: Collection[int]) -> str:
    """Name ranks with their workers: ``Ranks 2, 3 on blue and rank 5 on green``; of many, the first."""
    by_node: dict[int, list[int]] = {}
    for rank in sorted(ranks)[:_NAMED]:
        by_node.setdefault(rank // record.procs_per_worker, []).append(rank)
    told = [f"{_plain(of)} on {losses.worker_name(record, node)}" for node, of in by_node.items()]
    *most, last = [*told, f"{len(ranks) - _NAMED} more"] if len(ranks) > _NAMED else told
    listed = f"{', '.join(most)} and {last}" if most else last
    return f"R{listed[1:]}"


def have(ranks: Collection[int]) -> str:
    return "has" if len(ranks) == 1 else "have"


def _after_end(record: JobRecord, spec: DistributedJob, ended: Collection[int], left: tuple[int, ...]) -> Behind:
    done, who = _plain(ended), named(record, left)
    run, show = ("runs", "shows") if len(left) == 1 else ("run", "show")
    return Behind(
        kind="straggler",
        ranks=left,
        grace_s=spec.straggler_grace_s,
        waiting=f"{done.capitalize()} {have(ended)} ended. {who} still {run}.",
        failed=f"{who} still {run} though {done} {have(ended)} ended, and {show} no line, file or processor time "
        f"for {spec.straggler_grace_s:g} s.",
    )


def _not_joined(record: JobRecord, joined: Collection[int], missing: tuple[int, ...]) -> Behind:
    limit_s, who = record.spec.rendezvous_timeout_s, named(record, missing)
    here = _plain(joined)
    wait = "waits" if len(joined) == 1 else "wait"
    return Behind(
        kind="rendezvous",
        ranks=missing,
        grace_s=limit_s,
        waiting=f"{who} {have(missing)} not joined yet. {here.capitalize()} {wait} in {_MEETING}.",
        failed=f"{who} {have(missing)} not joined after {limit_s:g} s: no sign of life from before {_MEETING}, "
        f"where {here} {wait}.",
    )


def _not_met(record: JobRecord, inside: tuple[int, ...]) -> Behind:
    limit_s, who = record.spec.rendezvous_timeout_s, named(record, inside)
    return Behind(
        kind="rendezvous",
        ranks=inside,
        grace_s=limit_s,
        waiting=f"{who} {'is' if len(inside) == 1 else 'are'} still in {_MEETING}, which every rank has reached.",
        failed=f"{who} {have(inside)} not come out of {_MEETING} after {limit_s:g} s, though every rank has reached it.",
    )


def _not_come(record: JobRecord) -> str | None:
    """Say which ranks have yet to come to the caller's call; that they may take their time is not for us to judge."""
    view = phases.latest_go(record)
    if view is None or view.begun or record.stop is not None or record.state is not JobState.RUNNING:
        return None
    here = agreement.arrived(view)
    missing = [rank for rank in range(record.world_size) if rank not in here]
    if not here or not missing or view.go is None:
        return None
    return f"{named(record, missing)} {have(missing)} not come to call {view.call} ({view.go.fingerprint.function}) yet."


def _of_succeeded(record: JobRecord) -> list[int]:
    return [rank for task in record.tasks if task.state is TaskState.SUCCEEDED for rank in _hosted(record, task.node_rank)]


def _hosted(record: JobRecord, node_rank: int) -> range:
    return range(node_rank * record.procs_per_worker, (node_rank + 1) * record.procs_per_worker)


def _plain(ranks: Collection[int]) -> str:
    shown = ", ".join(map(str, sorted(ranks)[:_NAMED]))
    more = f" and {len(ranks) - _NAMED} more" if len(ranks) > _NAMED else ""
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {shown}{more}"
