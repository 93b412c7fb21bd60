"""Tokens managed on the server's own machine, in its database: how the first one is made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpulayer.control.server import auth, tls
from gpulayer.control.server.private_files import make_private_folder
from gpulayer.control.store.store import Store, open_database
from gpulayer.errors import BadRequest
from gpulayer.spec.tokens import NewToken, TokenRecord, TokenRequest


class TokenDesk:
    """What an admin may ask over HTTP, for who may open the database anyway."""

    def __init__(self, store: Store, fingerprint: str) -> None:
        self._store = store
        self._fingerprint = fingerprint

    def create_token(self, request: TokenRequest) -> NewToken:
        return auth.create(self._store, request, self._store.now(), fingerprint=self._fingerprint)

    def tokens(self) -> list[TokenRecord]:
        return auth.listed(self._store)

    def revoke_token(self, token_id: str) -> None:
        auth.revoke(self._store, token_id, self._store.now())


@contextmanager
def on_this_machine(data: Path, database: str | None) -> Iterator[TokenDesk]:
    """Open the database of the server whose folder is ``data``; both are made when this comes before its first start.

    Raises ``BadRequest`` for the folder of a server whose database is another one: a token made beside it would open nothing.
    """
    cert = data / "tls" / "cert.pem"
    if database is None and cert.exists() and not (data / "plane.db").exists():
        raise BadRequest(
            f"{data} is the folder of a server that keeps its database elsewhere.",
            next_step="Name it as the server does: --database URL beside --data.",
        )
    make_private_folder(data)
    store = open_database(database or f"sqlite:///{data / 'plane.db'}", data)
    try:
        yield TokenDesk(store, tls.fingerprint(cert) if cert.exists() else "")
    finally:
        store.close()
