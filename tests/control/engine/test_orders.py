"""What a worker is told to do."""

from __future__ import annotations

from gpulayer.control.engine import transitions
from gpulayer.control.engine.orders import order_of_lost, orders_for
from gpulayer.spec.records import JobRecord, Order
from gpulayer.spec.reports import RendezvousTaken
from gpulayer.spec.states import Reason
from tests.control.engine.given import (
    CALLS,
    POINT,
    arrives,
    cancelled,
    command,
    ended,
    gang,
    gpus,
    hear,
    let_go,
    of,
    placed,
    plan,
    queued,
    ready,
    records,
    running,
    stores,
    worker,
)


def order(record: JobRecord, node: int = 0) -> Order:
    (found,) = orders_for(record, f"wkr-w{node}")
    return found


def launches(record: JobRecord) -> list[bool]:
    return [order(record, task.node_rank).launch for task in record.tasks]


def test_a_worker_is_told_of_its_own_live_tasks_only() -> None:
    record = running(gang(2))

    assert order(record, 1).node_rank == 1
    assert orders_for(record, "wkr-other") == ()
    assert orders_for(hear(record, ended(record, 1)), "wkr-w1") == ()
    assert orders_for(queued(command()), "wkr-w0") == ()


def test_nobody_launches_before_all_are_ready_and_the_others_only_when_they_know_where_to_meet() -> None:
    record = placed(gang(3))
    for node in (2, 0):
        record = hear(record, ready(record, node))
    assert launches(record) == [False, False, False]

    record = hear(record, ready(record, 1))
    assert launches(record) == [True, False, False]

    record = hear(record, RendezvousTaken(**of(record, 0), point=POINT))
    assert launches(record) == [True, True, True]
    assert order(record, 2).rendezvous == POINT


def test_one_node_launches_when_it_is_ready() -> None:
    record = placed(command())

    assert launches(record) == [False]
    assert launches(hear(record, ready(record))) == [True]


def test_a_stopped_job_launches_nothing_new_and_everyone_is_told_to_stop() -> None:
    record = placed(gang(2))
    for node in range(2):
        record = hear(record, ready(record, node))

    record = cancelled(record, grace_s=30.0)

    assert launches(record) == [False, False]
    assert order(record, 0).stop == order(record, 1).stop == record.stop


def test_the_lowest_node_of_a_machine_tends_its_work_folder() -> None:
    workers = [worker("w0", machine="m"), worker("w1", machine="n"), worker("w2", machine="n"), worker("w3", machine="m")]
    record = queued(gang(4))
    record = transitions.place(record, plan([record], workers).placements[0], workers, 0.0).record

    assert [order(record, node).machine_rank for node in range(4)] == [0, 1, 1, 0]


def test_each_node_is_told_its_devices() -> None:
    devices = gpus("m", 2)
    workers = [worker(name, machine="m", devices=devices) for name in ("w0", "w1")]
    record = queued(gang(2, resources={"accelerator": "cuda", "gpu_count": 1}))
    record = transitions.place(record, plan([record], workers).placements[0], workers, 0.0).record

    assert [order(record, node).devices for node in range(2)] == [devices[:1], devices[1:]]


def test_calls_that_are_over_are_not_repeated() -> None:
    record = running(gang(1, calls=CALLS))
    for call in range(3):
        record = let_go(record, call)
        record = hear(hear(record, arrives(record, 0, call)), records(record, 0, call))
        record = hear(record, stores(record, 0, call))
    record = let_go(record, 3)

    assert [view.call for view in order(record).calls] == [2, 3]


def test_a_lost_task_is_ordered_to_be_gone_and_nothing_else() -> None:
    record = running(gang(2))
    record = transitions.lose_tasks(record, (1,), Reason.WORKER_LOST, 3.0).record

    order = order_of_lost(record.tasks[1], record.spec)

    assert (order.job_id, order.attempt, order.node_rank, order.launch) == (record.id, 1, 1, True)
    assert order.stop is not None
    assert (order.stop.reason, order.stop.kill) == (Reason.WORKER_LOST, True)
