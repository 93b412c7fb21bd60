"""Tasks given up: their worker is gone, or says nothing of them any more. Their devices stay leased."""

from __future__ import annotations

from collections.abc import Mapping

from gpulayer.control.engine import phases, stopping
from gpulayer.control.engine.moves import Step
from gpulayer.spec.records import JobRecord, Stop
from gpulayer.spec.states import Reason, TaskState

LOST = "was lost"
DIED = "was lost: its process ended without a word"
REMOVED = "was removed by an admin"


def give_up(step: Step, sentences: Mapping[int, str], reason: Reason, now: float) -> Step:
    """Lose the live tasks among the node ranks in ``sentences``, each with its sentence, and stop the others."""
    lost = [task for task in phases.live_tasks(step.record) if task.node_rank in sentences]
    for task in lost:
        told = {"reason": reason, "sentence": sentences[task.node_rank]}
        step = step.move_task(task.node_rank, TaskState.LOST, ended_at=now, **told)
        step = step.tell("task_ended", now, node_rank=task.node_rank, state=TaskState.LOST, **told)
    if lost and step.record.stop is None and phases.live_tasks(step.record):
        step = stopping.stop(step, Stop(reason=Reason.PEER_FAILED, grace_s=stopping.FAILURE_GRACE_S), now)
    return step


def name(record: JobRecord, node_rank: int) -> str:
    """Return the name of a task's worker, for people."""
    worker = worker_name(record, node_rank)
    return f"{worker} (node {node_rank})" if len(record.tasks) > 1 else worker


def worker_name(record: JobRecord, node_rank: int) -> str:
    task = record.tasks[node_rank]
    return task.worker_name or task.worker_id


def fell(record: JobRecord, node_rank: int, fate: str) -> str:
    """Say what became of a task's worker."""
    return f"{name(record, node_rank)} {fate}."


def told(record: JobRecord, node_rank: int, sentence: str) -> str:
    """Say whose word on a lost task it is; a worker that came back without the task has none."""
    if not sentence:
        return fell(record, node_rank, LOST)
    return f"{name(record, node_rank)}: {sentence[0].lower()}{sentence[1:]}"
