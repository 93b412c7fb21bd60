"""What a worker should be doing, read from a job's record."""

from __future__ import annotations

from gpulayer.control.engine import behind, phases
from gpulayer.spec.calls import CallView
from gpulayer.spec.job import Job
from gpulayer.spec.records import ALL_PAIRS_UP_TO, JobRecord, Order, Peer, Stop, TaskRecord
from gpulayer.spec.states import Reason, TaskState


def orders_for(record: JobRecord, worker_id: str) -> tuple[Order, ...]:
    """Return the orders for the tasks that a worker still has of a job's latest attempt."""
    return tuple(_order(record, task) for task in phases.live_tasks(record) if task.worker_id == worker_id)


def order_of_lost(task: TaskRecord, spec: Job) -> Order:
    """Return the order for a task that was given up while processes of it may live, of whatever attempt.

    It asks for nothing but the word that these are gone, which frees the devices. A worker that has nothing of the task
    takes it for one that another incarnation launched, and says so at once.
    """
    return Order(
        job_id=task.job_id,
        attempt=task.attempt,
        node_rank=task.node_rank,
        spec=spec,
        procs_per_worker=1,
        num_workers=task.node_rank + 1,
        devices=task.devices,
        machine_rank=task.node_rank,
        launch=True,
        stop=Stop(reason=Reason.WORKER_LOST, sentence=task.sentence, grace_s=0.0, kill=True, at=task.ended_at or 0.0),
        caller_ended=True,
    )


def _order(record: JobRecord, task: TaskRecord) -> Order:
    return Order(
        job_id=record.id,
        attempt=record.attempt,
        node_rank=task.node_rank,
        spec=record.spec,
        procs_per_worker=record.procs_per_worker,
        num_workers=len(record.tasks),
        devices=task.devices,
        machine_rank=min(each.node_rank for each in record.tasks if each.machine == task.machine),
        launch=_may_launch(record, task),
        rendezvous=record.rendezvous,
        peers=_peers(record),
        still_after_s=behind.patience_s(record, task.node_rank),
        stop=record.stop,
        calls=_current(record.calls),
        caller_ended=record.caller_ended,
    )


def _may_launch(record: JobRecord, task: TaskRecord) -> bool:
    """Whether all nodes are ready, and, for any but the first, where they meet is known."""
    if task.state is TaskState.RUNNING:
        return True
    if record.stop is not None or not phases.all_ready(record):
        return False
    return task.node_rank == 0 or record.rendezvous is not None


def _peers(record: JobRecord) -> tuple[Peer, ...]:
    if not 1 < len(record.tasks) <= ALL_PAIRS_UP_TO or not phases.all_ready(record):
        return ()
    return tuple(
        Peer(node_rank=task.node_rank, worker_name=task.worker_name or task.worker_id, preflight=task.preflight)
        for task in record.tasks
    )


def _current(calls: tuple[CallView, ...]) -> tuple[CallView, ...]:
    """Return the views that a worker may still act on: those not settled, and the last that is."""
    settled = [view for view in calls if view.settled]
    return tuple(view for view in calls if not view.settled or view is settled[-1])
