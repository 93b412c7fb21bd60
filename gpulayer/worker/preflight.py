"""Proof before the start that the nodes of an attempt reach each other: each answers, and each dials all others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import inf

from gpulayer.spec.records import ALL_PAIRS_UP_TO, Order, Peer, RendezvousPoint
from gpulayer.worker.ports import Port, Unreachable, dial

DIAL_S = 5.0
_FIX = "Open the ports between the machines, or start the worker with another --advertise-address."


def needed(order: Order) -> bool:
    """Say whether all pairs are to be proven."""
    return order.spec.kind == "distributed" and 1 < order.num_workers <= ALL_PAIRS_UP_TO


def attempt_of(order: Order) -> str:
    return f"{order.job_id}.{order.attempt}"


class Preflight:
    """One node's half: it answers the others from the moment it is made until all have come, or ``close``."""

    def __init__(self, order: Order, address: str) -> None:
        self._order = order
        self._port = Port(address, None)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._answer, name="gpulayer-preflight", daemon=True)
        self._thread.start()

    @property
    def point(self) -> RendezvousPoint:
        return self._port.point

    def dial(self, peers: Sequence[Peer], stopped: Callable[[], bool]) -> None:
        """Reach every other node; raises ``Unreachable`` with a sentence for each that can't be."""
        me = peers[self._order.node_rank]
        others = [peer for peer in peers if peer.node_rank != me.node_rank]
        with ThreadPoolExecutor(len(others), thread_name_prefix="gpulayer-dial") as pool:
            troubles = list(filter(None, pool.map(lambda peer: self._trouble(me, peer, stopped), others)))
        if troubles:
            raise Unreachable(" ".join((*troubles, _FIX)))

    def close(self) -> None:
        self._closed.set()
        self._thread.join()
        self._port.close()

    def _answer(self) -> None:
        others = set(range(self._order.num_workers)) - {self._order.node_rank}
        self._port.meet(attempt_of(self._order), others, inf, self._closed.is_set)

    def _trouble(self, me: Peer, peer: Peer, stopped: Callable[[], bool]) -> str:
        if peer.preflight is None:
            return ""
        names = (named(me), named(peer))
        try:
            dial(peer.preflight, attempt_of(self._order), me.node_rank, DIAL_S, stopped, names=names)
        except Unreachable as trouble:
            return str(trouble)
        return ""


def named(peer: Peer) -> str:
    """Name a node for people."""
    return f"{peer.worker_name} (node {peer.node_rank})"
