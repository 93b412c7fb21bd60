"""A self-hosted server: the one place where its database, blobs, certificate, routes and socket meet."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from gpulayer.artifacts.store import BlobStore
from gpulayer.control.server import home, journal, serving, tls
from gpulayer.control.server.hosted import LEASE_S, HostedPlane
from gpulayer.control.server.http import application
from gpulayer.control.server.keeping import Keeper
from gpulayer.control.server.private_files import make_private_folder
from gpulayer.control.server.quota import Quota
from gpulayer.control.server.rates import Rate
from gpulayer.control.server.routes.about import VERSION
from gpulayer.control.server.tls import Tls
from gpulayer.control.server.uploads import ABANDONED_S, LONGEST_BLOB, Uploads
from gpulayer.control.store import tokens
from gpulayer.control.store.sqlite import errors_named
from gpulayer.control.store.store import open_database
from gpulayer.errors import (
    DiskFull,
    GPULayerError,
    HomeDamaged,
    HomeError,
    HomeOnNetworkFilesystem,
    HomeTooNew,
    HomeUnwritable,
    PlaneBusy,
    ServerRefused,
)

RELOOK_S = 1.0
"""Where other servers write to the same database, nobody trusts for longer in being woken."""
_SQLITE = "sqlite:///"


@dataclass(frozen=True)
class Options:
    """How a server is to run. ``data`` holds what has no place of its own: the database and blobs, unless URLs name others."""

    host: str
    port: int
    data: Path
    database: str | None = None
    artifacts: str | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    insecure: bool = False
    lease_s: float = LEASE_S
    longest_blob: int = LONGEST_BLOB
    log_quota: Quota = field(default_factory=Quota)
    rate: Rate = field(default_factory=Rate)

    @property
    def database_url(self) -> str:
        return self.database or f"{_SQLITE}{self.data / 'plane.db'}"

    @property
    def database_file(self) -> Path | None:
        """The SQLite file; None where several servers may share the database."""
        url = self.database_url
        return Path(url.removeprefix(_SQLITE)).absolute() if url.startswith(_SQLITE) else None


@dataclass(frozen=True)
class Ready:
    """A server that answers at ``urls``; ``fingerprint`` is that of a certificate that nobody else vouches for, or empty."""

    urls: tuple[str, ...]
    fingerprint: str
    has_admin: bool


def run(options: Options, on_ready: Callable[[Ready], None]) -> None:
    """Serve until told to end; raises ``ServerRefused``, or what the database says, before anything answers."""
    _check(options)
    with ExitStack() as opened:
        with _refusals_named(options):
            make_private_folder(options.data)
            if options.database_file is not None:
                home.refuse_network(options.database_file.parent)
                opened.enter_context(serving.only_server_of(options.database_file))
            sock = opened.enter_context(serving.listening(options.host, options.port))
            shown = _certificate(options)
            plane = opened.enter_context(_plane(options))
        fingerprint = shown.fingerprint if shown and options.tls_cert is None else ""
        uploads = Uploads(options.data / "uploads", plane.keeper, options.longest_blob)
        app = application(plane, uploads, fingerprint=fingerprint, rate=options.rate)
        with plane.store.read() as db:
            now = plane.store.now()
            has_admin = any(each.role == "admin" and each.state(now) == "live" for each in tokens.all_in(db))
        ready = Ready(serving.urls_of(sock, shown is not None), fingerprint, has_admin)
        plane.start({"uploads": (ABANDONED_S / 24, uploads.forget_abandoned)})

        def begin() -> None:
            where = options.database_file or options.database_url.partition(":")[0]
            journal.tell("started", urls=ready.urls, version=VERSION, database=str(where), lease_s=options.lease_s)
            on_ready(ready)

        def stop() -> None:
            journal.tell("stopping")
            plane.waits.close()

        serving.serve(app, sock, shown, on_ready=begin, on_stop=stop)
    journal.tell("stopped")


_ELSEWHERE: dict[type[HomeError], str] = {
    HomeUnwritable: "Name a folder that you can write to with --data.",
    HomeTooNew: "Upgrade gpulayer, or name another --database. Nothing was changed.",
    HomeDamaged: "Bring it back from a copy, or name another --database. Nothing was changed.",
    HomeOnNetworkFilesystem: "Name a folder on a local disk with --data, or a PostgreSQL server with --database.",
    DiskFull: "Free some space, or name another folder with --data.",
}
"""What to do about a folder where the embedded plane would speak of GPULAYER_HOME."""


@contextmanager
def _refusals_named(options: Options) -> Iterator[None]:
    """Say of what is wrong with the folder or the database what a server's options can do about it."""
    try:
        with errors_named(options.data):
            yield
    except HomeError as error:
        error.next_step = next((way for kind, way in _ELSEWHERE.items() if isinstance(error, kind)), error.next_step)
        raise


def _check(options: Options) -> None:
    if (options.tls_cert is None) != (options.tls_key is None):
        raise ServerRefused("A certificate needs its key.", next_step="Give both --tls-cert and --tls-key.")
    if options.insecure and options.tls_cert is not None:
        raise ServerRefused("A server with a certificate isn't insecure.", next_step="Leave out --insecure.")


def _certificate(options: Options) -> Tls | None:
    """Return what the server shows: what was given, nothing on loopback or where that was asked for, else one of its own."""
    if options.tls_cert is not None and options.tls_key is not None:
        return tls.given(options.tls_cert, options.tls_key, datetime.now(UTC))
    if options.insecure or serving.is_loopback(options.host):
        return None
    return tls.ensure(options.data / "tls", [options.host, socket.gethostname(), socket.getfqdn()])


def _plane(options: Options) -> HostedPlane:
    store = open_database(options.database_url, options.data)
    try:
        keeper = Keeper(store, _files(options))
        relook_s = RELOOK_S if options.database_file is None else None
        return HostedPlane(
            store,
            keeper,
            options.data / "secrets.key",
            lease_s=options.lease_s,
            relook_s=relook_s,
            log_quota=options.log_quota,
        )
    except BaseException:
        store.close()
        raise


def _files(options: Options) -> BlobStore:
    """Open the artifact store, and try it: what is wrong with it shall show now, and not at the first job."""
    url = options.artifacts or (options.data / "blobs").as_uri()
    try:
        files = BlobStore(url)
        files.check()
        return files
    except (PlaneBusy, OSError, ValueError, ImportError) as cause:
        why = cause.sentence if isinstance(cause, GPULayerError) else f"{url} can't be used: {cause}."
        raise ServerRefused(why, next_step="Check --artifacts, and what its store asks for as credentials.") from cause
