"""What a worker should be doing, read from a job's record."""

from __future__ import annotations

from gpulayer.control.engine import phases
from gpulayer.spec.calls import CallView
from gpulayer.spec.records import JobRecord, Order, TaskRecord
from gpulayer.spec.states import TaskState


def orders_for(record: JobRecord, worker_id: str) -> tuple[Order, ...]:
    """Return the orders for the tasks that a worker still has of a job's latest attempt."""
    return tuple(_order(record, task) for task in phases.live_tasks(record) if task.worker_id == worker_id)


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


def _current(calls: tuple[CallView, ...]) -> tuple[CallView, ...]:
    """Return the views that a worker may still act on: those not settled, and the last that is."""
    settled = [view for view in calls if view.settled]
    return tuple(view for view in calls if not view.settled or view is settled[-1])
