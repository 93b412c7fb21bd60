"""What the nodes of a gang hear of each other before the start."""

from __future__ import annotations

from gpulayer.control.engine import transitions
from gpulayer.control.engine.orders import orders_for
from gpulayer.spec.records import ALL_PAIRS_UP_TO, JobRecord, Order, RendezvousPoint
from gpulayer.spec.reports import RendezvousTaken, TaskReady
from tests.control.engine.given import POINT, gang, hear, of, placed


def answering(node: int) -> RendezvousPoint:
    return RendezvousPoint(address=f"10.0.0.{node}", port=4000 + node, nonce="n")


def all_ready(nodes: int) -> JobRecord:
    record = placed(gang(nodes))
    for node in range(nodes):
        record = hear(record, TaskReady(**of(record, node), preflight=answering(node)))
    return record


def order(record: JobRecord, node: int) -> Order:
    (found,) = orders_for(record, record.tasks[node].worker_id)
    return found


def test_once_all_are_ready_every_node_hears_where_every_node_answers() -> None:
    early = placed(gang(2))
    early = hear(early, TaskReady(**of(early, 0), preflight=answering(0)))
    assert order(early, 0).peers == ()

    record = all_ready(2)

    for node in (0, 1):
        assert [peer.preflight for peer in order(record, node).peers] == [answering(0), answering(1)]
        assert [peer.worker_name for peer in order(record, node).peers] == [task.worker_name for task in record.tasks]


def test_a_large_gang_proves_only_that_node_0_is_reached_and_the_event_says_so() -> None:
    for nodes, proven in ((ALL_PAIRS_UP_TO, "all pairs"), (ALL_PAIRS_UP_TO + 1, "each to node 0")):
        record = all_ready(nodes)
        step = transitions.advance(record, RendezvousTaken(**of(record, 0), point=POINT), 1.0)
        assert [event.facts["proven"] for event in step.events if event.kind == "gated"] == [proven]
        assert len(order(record, 0).peers) == (nodes if proven == "all pairs" else 0)
