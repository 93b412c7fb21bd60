"""Starts a standing worker: who it is, where its plane is, what it can do; then it serves."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpulayer import plane as planes
from gpulayer.errors import Unauthorized
from gpulayer.plane import Plane
from gpulayer.settings import Settings
from gpulayer.spec.tokens import JoinRequest
from gpulayer.spec.workers import WorkerInfo
from gpulayer.worker import addresses, environment, hardware, identity, joining, locks, processes
from gpulayer.worker.identity import Identity
from gpulayer.worker.site import Site
from gpulayer.worker.standing import Standing


@dataclass(frozen=True)
class Wish:
    """What the person who starts it asked for."""

    name: str | None = None
    labels: Mapping[str, str] | None = None
    advertise_address: str | None = None
    slots: int = 1
    once: bool = False
    idle_timeout_s: float | None = None
    work_dir: Path | None = None


def serve(found: Settings, wish: Wish, announce: Callable[[WorkerInfo, str], None]) -> int:
    """Be a worker until the end; returns the exit code. ``announce`` is told once the plane knows it."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    name = wish.name or socket.gethostname()
    work_dir = Path(os.path.abspath(wish.work_dir or found.home / "workers" / name))
    identity.hold(work_dir)
    processes.adopt_orphans()
    if found.url is None:
        me = joining.in_home(work_dir, found.home)
        plane = planes.open(found.home, process="worker")
    else:
        me = joining.at_url(
            work_dir, found.url, lambda: planes.token_of(found), lambda token, hash: _redeem(found, token, hash, name)
        )
        plane = planes.open(found.url, process="worker", token=me.key)
    try:
        return _serve(plane, found, wish, me, name, work_dir, announce)
    finally:
        plane.close()


def _redeem(found: Settings, token: str, key_hash: str, name: str) -> str:
    from gpulayer.plane.remote import RemotePlane
    from gpulayer.transport.address import Address

    assert found.url is not None
    plane = RemotePlane(Address(found.url, token, found.ca_cert, found.insecure), process="worker")
    try:
        return plane.join(JoinRequest(key_hash=key_hash, name=name)).worker_id
    finally:
        plane.close()


def _serve(
    plane: Plane,
    found: Settings,
    wish: Wish,
    me: Identity,
    name: str,
    work_dir: Path,
    announce: Callable[[WorkerInfo, str], None],
) -> int:
    embedded = found.url is None
    info = WorkerInfo(
        id=me.worker_id,
        name=name,
        origin="local" if embedded else "existing",
        process=plane.process_id if embedded else None,
        labels=dict(wish.labels or {}),
        slots=wish.slots,
        incarnation=secrets.token_hex(8),
        capabilities=hardware.capabilities(work_dir, os.environ, addresses.advertised(wish.advertise_address, found.url)),
    )
    site = Site(
        plane=plane,
        home=found.home if embedded else work_dir,
        shared=found.home if embedded else _shared(),
        me=info,
        environ=dict(os.environ) if embedded else environment.of_machine(os.environ),
        leased=not embedded,
    )
    standing = Standing(site, once=wish.once, idle_timeout_s=wish.idle_timeout_s)
    standing.listen_to_signals()
    try:
        standing.agent.register()
    except Unauthorized as refusal:
        raise joining.refused(refusal, me, work_dir) from refusal
    standing.agent.take_over()
    announce(info, me.plane)
    return standing.run()


def _shared() -> Path:
    """Return the folder that has the same path on all machines, so that a job's work folder has."""
    folder = Path(f"/tmp/gpulayer-{os.getuid()}")
    locks.make_private(folder)
    return folder
