"""The meeting point of torchrun's agents, and the proof that every node reaches it."""

from __future__ import annotations

import socket
import threading

import pytest

from gpulayer.spec.records import RendezvousPoint
from gpulayer.worker.ports import Port, Unreachable, dial


def never() -> bool:
    return False


def test_peers_prove_that_they_reach_node_0() -> None:
    port = Port("127.0.0.1", None)
    peers = [threading.Thread(target=dial, args=(port.point, "job.1", node, 10.0, never)) for node in (1, 2)]
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
            dial(stranger, "job.1", 1, 0.3, never)
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
        dial(point, "job.1", 1, 0.1, never)


def test_a_stop_ends_the_wait() -> None:
    port = Port("127.0.0.1", None)
    port.meet("job.1", {1}, 60.0, lambda: True)
    port.close()
