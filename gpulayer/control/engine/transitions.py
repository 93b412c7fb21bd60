"""How a job moves: from submission through the queue to its workers, and on by reports, wishes and time."""

from __future__ import annotations

from collections.abc import Iterable

from gpulayer.control.engine import losses, stopping
from gpulayer.control.engine.conclusion import conclude
from gpulayer.control.engine.deadlines import next_deadline, tick
from gpulayer.control.engine.endings import Ending
from gpulayer.control.engine.moves import IllegalMove, Step
from gpulayer.control.engine.reports import advance
from gpulayer.control.engine.stopping import end
from gpulayer.spec.job import shape
from gpulayer.spec.ranks import Ranks
from gpulayer.spec.records import JobRecord, PlacementChoice, Stop, TaskRecord, Waiting, WorkerRecord
from gpulayer.spec.states import JobState, Phase, Reason

__all__ = [
    "IllegalMove",
    "Step",
    "advance",
    "lose_tasks",
    "next_deadline",
    "place",
    "refuse",
    "request_stop",
    "submitted",
    "tick",
    "wait",
]


def submitted(record: JobRecord, now: float) -> Step:
    """Queue a job for the first time."""
    _, procs = shape(record.spec)
    step = Step(record).change(created_at=now, queued_at=now, procs_per_worker=1 if procs == "auto" else procs)
    return step.tell("submitted", now, name=record.spec.name, kind_of_job=record.spec.kind)


def place(record: JobRecord, choice: PlacementChoice, workers: Iterable[WorkerRecord], now: float) -> Step:
    """Begin an attempt on the chosen workers; changes nothing where the job no longer waits."""
    step = Step(record)
    if record.state is not JobState.QUEUED:
        return step
    known = {worker.info.id: worker for worker in workers}
    attempt = record.attempt + 1
    tasks = tuple(
        TaskRecord(
            job_id=record.id,
            attempt=attempt,
            node_rank=node_rank,
            worker_id=worker_id,
            worker_name=known[worker_id].info.name,
            machine=known[worker_id].info.capabilities.machine,
            devices=devices,
            assigned_at=now,
        )
        for node_rank, (worker_id, devices) in enumerate(zip(choice.workers, choice.devices, strict=True))
    )
    step = step.move(JobState.RUNNING, None)
    step = step.change(
        attempt=attempt,
        tasks=tasks,
        procs_per_worker=choice.procs_per_worker,
        placed_at=now,
        phase=Phase.PREPARING,
        ranks=Ranks(),
        why=(),
    )
    step = step.tell("placed", now, workers=list(choice.workers), devices=[[each.uuid for each in of] for of in choice.devices])
    return conclude(step, now)


def wait(record: JobRecord, waiting: Waiting, now: float) -> Step:
    """Note why a queued job isn't placed; the same reasons again are no news."""
    step = Step(record)
    if record.state is not JobState.QUEUED or record.why == waiting.sentences:
        return step
    sentence = waiting.sentences[0] if waiting.sentences else ""
    step = step.change(why=waiting.sentences, reason=Reason.WAITING_FOR_WORKERS, sentence=sentence)
    return step.tell("waiting", now, sentences=list(waiting.sentences), never=waiting.never)


def refuse(record: JobRecord, waiting: Waiting, now: float) -> Step:
    """End a queued job that no registered worker could ever run, with everyone's reasons."""
    step = Step(record)
    if record.state is not JobState.QUEUED:
        return step
    sentence = "\n".join(waiting.sentences) or "No registered worker could ever run it."
    return end(step, Ending(JobState.FAILED, Reason.UNSCHEDULABLE, sentence), now).change(why=waiting.sentences)


def request_stop(record: JobRecord, stop: Stop, now: float) -> Step:
    """Ask that a job ends; asking again changes nothing unless it asks harder."""
    step = stopping.stop(Step(record), stop, now)
    return conclude(step, now)


def lose_tasks(record: JobRecord, node_ranks: Iterable[int], reason: Reason, now: float, *, fate: str = losses.LOST) -> Step:
    """Give up tasks whose worker is gone, and stop the others; ``fate`` says of the worker what is known."""
    known = set(node_ranks) & set(range(len(record.tasks)))
    sentences = {node_rank: losses.fell(record, node_rank, fate) for node_rank in known}
    step = losses.give_up(Step(record), sentences, reason, now)
    return conclude(step, now) if step.events else step
