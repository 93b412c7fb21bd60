"""Runs a server in this process: what it is refused for, its socket, its signals, its end."""

from __future__ import annotations

import asyncio
import fcntl
import ipaddress
import os
import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import anyio.to_thread
import uvicorn
from starlette.types import ASGIApp

from gpulayer.control.server.connection import IDLE_S, connection_class
from gpulayer.control.server.tls import Tls
from gpulayer.errors import ServerRefused
from gpulayer.transport import interfaces

FINISH_S = 10
"""How long requests that are being answered may take at the end."""
_SPARE = 64
"""Descriptors that are never given to connections: the database, files and the log need some."""
_BACKLOG = 2048
_THREADS = 24
"""More that ask the database at once only wait for each other, each with descriptors of its own."""


def is_loopback(host: str) -> bool:
    """Say whether only this machine can reach ``host``."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """Listen at an address; raises ``ServerRefused`` when that can't be."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        # Only where it reads TCP does asyncio turn Nagle's algorithm off; with it on, every answer comes 40 ms late.
        sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(_BACKLOG)
    except OSError as cause:
        raise ServerRefused(
            f"Can't listen on {host} port {port}: {cause}.", next_step="Give another --host or --port."
        ) from cause
    with sock:
        yield sock


def urls_of(sock: socket.socket, tls: bool) -> tuple[str, ...]:
    """Return the URLs under which a listening socket answers: where it listens on all addresses, those of this machine."""
    host, port = sock.getsockname()[:2]
    asked = ipaddress.ip_address(host)
    hosts = _reachable(asked.version) if asked.is_unspecified else [host]
    return tuple(f"{'https' if tls else 'http'}://{f'[{each}]' if ':' in each else each}:{port}" for each in hosts)


def _reachable(version: int) -> list[str]:
    """List this machine's addresses; loopback only where there is no other. One that listens on :: answers IPv4 as well."""
    found = [ipaddress.ip_address(each.address) for each in interfaces.table()]
    fit = [each for each in found if not each.is_link_local and version in (each.version, 6)]
    return [str(each) for each in fit if not each.is_loopback] or [str(each) for each in fit] or [socket.gethostname()]


@contextmanager
def only_server_of(database: Path) -> Iterator[None]:
    """Be the one server of a SQLite database for as long as the block lasts; raises ``ServerRefused``."""
    database.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(f"{database}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as cause:
            raise ServerRefused(
                f"Another server runs on {database}.", next_step="Stop it first, or give both a PostgreSQL database."
            ) from cause
        yield
    finally:
        os.close(lock)


def raise_open_files() -> int:
    """Allow this process as many open files as it may have; returns how many connections that leaves room for."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return max(16, (hard if hard != resource.RLIM_INFINITY else 1 << 20) - _SPARE)


def serve(
    app: ASGIApp, sock: socket.socket, tls: Tls | None, *, on_ready: Callable[[], None], on_stop: Callable[[], None]
) -> None:
    """Answer until SIGTERM or SIGINT; ``on_stop`` is called as soon as one came, and must not wait."""
    config = uvicorn.Config(
        app,
        http=connection_class(raise_open_files()),
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=FINISH_S,
        ssl_certfile=tls.cert_path if tls else None,
        ssl_keyfile=tls.key_path if tls else None,
    )
    _Server(config, on_ready, on_stop).run(sockets=[sock])


class _Server(uvicorn.Server):
    """Ends with status 0 when it is told to end: a second signal ends it at once."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None], on_stop: Callable[[], None]) -> None:
        super().__init__(config)
        self._loop: asyncio.AbstractEventLoop
        self._on_ready = on_ready
        self._on_stop = on_stop

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        anyio.to_thread.current_default_thread_limiter().total_tokens = _THREADS
        await super().startup(sockets)
        if not self.should_exit:
            self._on_ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit:
            self.force_exit = True
            return
        self.should_exit = True
        # This may have interrupted the loop while it held a lock that ``on_stop`` takes.
        self._loop.call_soon_threadsafe(self._on_stop)
