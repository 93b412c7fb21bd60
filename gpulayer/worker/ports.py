"""Where torchrun's agents meet: a port that nobody else can take, and proof that every node reaches it."""

from __future__ import annotations

import json
import secrets
import socket
import time
from collections.abc import Callable
from typing import Any

from gpulayer.spec.records import RendezvousPoint

_DIAL_S = 5.0
_CONNECT_S = 3.0
_LOOK_S = 0.1
_LONGEST = 4096


class Unreachable(Exception):
    """The nodes of an attempt can't meet; the sentence names who and where."""


class Port:
    """A bound port. ``quiet`` makes it deaf but keeps it: torchrun's store can bind it, and nobody else [1].

    [1] Both sockets have SO_REUSEADDR, and Linux lets such sockets share a port as long as at most one listens.
    """

    def __init__(self, address: str, port: int | None) -> None:
        try:
            self._socket = _bound(address, port) if port else _bound_anywhere(address)
            self._socket.listen(128)
        except OSError as cause:
            raise Unreachable(f"{address}:{port or 'any port'} can't be taken: {cause.strerror}.") from cause
        self.point = RendezvousPoint(address=address, port=self._socket.getsockname()[1], nonce=secrets.token_hex(16))

    def meet(self, attempt: str, peers: set[int], timeout_s: float, stopped: Callable[[], bool]) -> None:
        """Answer the dial of every peer; raises ``Unreachable`` naming those who did not come in time."""
        deadline = time.monotonic() + timeout_s
        missing = set(peers)
        self._socket.settimeout(_LOOK_S)
        while missing and not stopped():
            if time.monotonic() > deadline:
                names = ", ".join(str(node) for node in sorted(missing))
                raise Unreachable(f"Node {names} has not reached {spelt(self.point)} in {timeout_s:g} s.")
            try:
                dial, _ = self._socket.accept()
            except TimeoutError:
                continue
            missing -= self._answer(dial, attempt)

    def quiet(self) -> None:
        """Stop listening and keep the port."""
        self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()

    def _answer(self, dial: socket.socket, attempt: str) -> set[int]:
        with dial:
            dial.settimeout(_DIAL_S)
            said = _read_line(dial)
            if said is None or said.get("attempt") != attempt or said.get("nonce") != self.point.nonce:
                return set()
            _send_line(dial, {"attempt": attempt, "nonce": self.point.nonce})
            return {int(said["node_rank"])}


def _bound_anywhere(address: str) -> socket.socket:
    """Bind a port that the kernel chooses, and again by its number: only then does it outlast ``shutdown``."""
    with _bound(address, 0) as chosen:
        return _bound(address, chosen.getsockname()[1])


def _bound(address: str, port: int) -> socket.socket:
    found = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((address, port))
    except BaseException:
        found.close()
        raise
    return found


def dial(
    point: RendezvousPoint,
    attempt: str,
    node_rank: int,
    timeout_s: float,
    stopped: Callable[[], bool],
    *,
    names: tuple[str, str],
) -> None:
    """Prove that this node reaches another; raises ``Unreachable`` with both of their ``names`` and the address."""
    deadline = time.monotonic() + timeout_s
    trouble = "no answer"
    while not stopped():
        try:
            with socket.create_connection((point.address, point.port), timeout=_CONNECT_S) as ours:
                ours.settimeout(_DIAL_S)
                _send_line(ours, {"attempt": attempt, "nonce": point.nonce, "node_rank": node_rank})
                if (_read_line(ours) or {}).get("nonce") == point.nonce:
                    return
                trouble = "somebody else answered"
        except OSError as cause:
            trouble = cause.strerror or str(cause)
        if time.monotonic() > deadline:
            raise Unreachable(f"{names[0]} can't reach {names[1]} at {spelt(point)}: {trouble}.")
        time.sleep(_LOOK_S)


def spelt(point: RendezvousPoint) -> str:
    """Write an address with its port as URLs do."""
    return f"[{point.address}]:{point.port}" if ":" in point.address else f"{point.address}:{point.port}"


def _send_line(to: socket.socket, value: dict[str, Any]) -> None:
    to.sendall(json.dumps(value).encode() + b"\n")


def _read_line(ours: socket.socket) -> dict[str, Any] | None:
    data = b""
    while not data.endswith(b"\n") and len(data) < _LONGEST:
        try:
            more = ours.recv(_LONGEST)
        except OSError:
            return None
        if not more:
            return None
        data += more
    try:
        said = json.loads(data)
    except ValueError:
        return None
    return said if isinstance(said, dict) else None
