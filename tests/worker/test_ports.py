"""The meeting point of torchrun's agents, and the proof that every node reaches it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from gpulayer.spec.job import DistributedJob
from gpulayer.spec.records import Order, Peer, RendezvousPoint
from gpulayer.worker import preflight
from gpulayer.worker.ports import Port, Unreachable, dial, spelt
from gpulayer.worker.preflight import Preflight

NAMES = ("Node 1", "node 0")


def never() -> bool:
    return False


def test_peers_prove_that_they_reach_node_0() -> None:
    port = Port("127.0.0.1", None)
    peers = [
        threading.Thread(target=lambda node=node: dial(port.point, "job.1", node, 10.0, never, names=NAMES)) for node in (1, 2)
    ]  # type: ignore[misc]
    for peer in peers:
        peer.start()

    port.meet("job.1", {1, 2}, 10.0, never)

    for peer in peers:
        peer.join(10.0)
        assert not peer.is_alive()
    port.close()


def test_a_quiet_port_is_kept_for_torchrun_and_nobody_else() -> None:
    port = Port("127.0.0.1", None)
    port.quiet()

    with pytest.raises(OSError, match="in use"), socket.socket() as other:
        other.bind(("127.0.0.1", port.point.port))
    with socket.socket() as store:
        store.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        store.bind(("127.0.0.1", port.point.port))
        store.listen()
        with socket.create_connection(("127.0.0.1", port.point.port), timeout=5.0):
            pass
    port.close()


def test_who_did_not_come_is_named() -> None:
    port = Port("127.0.0.1", None)

    with pytest.raises(Unreachable, match=r"Node 1, 3 has not reached 127\.0\.0\.1:"):
        port.meet("job.1", {1, 3}, 0.1, never)
    port.close()


def test_a_dial_with_another_nonce_is_not_counted() -> None:
    port = Port("127.0.0.1", None)
    stranger = RendezvousPoint(address="127.0.0.1", port=port.point.port, nonce="guess")
    failures: list[Unreachable] = []

    def try_in() -> None:
        try:
            dial(stranger, "job.1", 1, 0.3, never, names=NAMES)
        except Unreachable as failure:
            failures.append(failure)

    thread = threading.Thread(target=try_in)
    thread.start()
    with pytest.raises(Unreachable, match="Node 1 has not reached"):
        port.meet("job.1", {1}, 0.5, never)
    thread.join(10.0)
    port.close()
    assert "somebody else answered" in str(failures[0])


def test_a_closed_port_is_named_with_both_ends() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    point = RendezvousPoint(address="127.0.0.1", port=port, nonce="n")

    with pytest.raises(Unreachable, match=rf"Node 1 can't reach node 0 at 127\.0\.0\.1:{port}"):
        dial(point, "job.1", 1, 0.1, never, names=NAMES)


def test_a_stop_ends_the_wait() -> None:
    port = Port("127.0.0.1", None)
    port.meet("job.1", {1}, 60.0, lambda: True)
    port.close()


# --- all pairs -------------------------------------------------------------------------------------------------------


def order(node_rank: int, nodes: int) -> Order:
    spec = DistributedJob(entrypoint="train.py", num_workers=nodes)
    return Order(job_id="job-1", attempt=1, node_rank=node_rank, spec=spec, procs_per_worker=1, num_workers=nodes)


@contextmanager
def gang(nodes: int) -> Iterator[tuple[list[Preflight], list[Peer]]]:
    """Nodes that answer on addresses of their own."""
    flights = [Preflight(order(node, nodes), f"127.0.0.{node + 1}") for node in range(nodes)]
    names = ("red", "blue", "green")
    try:
        yield flights, [Peer(node_rank=at, worker_name=names[at], preflight=each.point) for at, each in enumerate(flights)]
    finally:
        for each in flights:
            each.close()


def test_every_node_reaches_every_other() -> None:
    with gang(3) as (flights, peers), ThreadPoolExecutor() as pool:
        list(pool.map(lambda flight: flight.dial(peers, never), flights))


def test_two_nodes_that_do_not_reach_each_other_are_named_with_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "DIAL_S", 0.2)
    with gang(3) as (flights, peers):
        flights[2].close()
        at = flights[2].point

        with pytest.raises(Unreachable) as failure:
            flights[1].dial(peers, never)

    assert str(failure.value).startswith(f"blue (node 1) can't reach green (node 2) at 127.0.0.3:{at.port}: ")
    assert "red" not in str(failure.value)
    assert "--advertise-address" in str(failure.value)


def test_only_small_gangs_prove_all_pairs() -> None:
    assert [preflight.needed(order(0, nodes)) for nodes in (1, 2, 16, 17)] == [False, True, True, False]


def test_an_address_of_ipv6_is_written_in_brackets() -> None:
    assert spelt(RendezvousPoint(address="fd00::2", port=1, nonce="")) == "[fd00::2]:1"
