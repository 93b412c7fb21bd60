"""The HTTP application over a plane of its own, asked in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx

from gpulayer.artifacts.store import BlobStore
from gpulayer.control.server import auth
from gpulayer.control.server.hosted import HostedPlane
from gpulayer.control.server.http import application
from gpulayer.control.server.keeping import Keeper
from gpulayer.control.server.rates import Rate
from gpulayer.control.server.uploads import Uploads
from gpulayer.control.store.store import Store, open_store
from gpulayer.spec.tokens import TokenRequest

T = TypeVar("T")


class Asked:
    """A hosted plane and its application. ``ask`` runs a conversation with it to its end."""

    def __init__(self, folder: Path, *, rate: Rate | None = None, longest_blob: int = 1 << 30, **options: Any) -> None:
        folder.mkdir(exist_ok=True)
        self.store: Store = open_store(folder)
        keeper = Keeper(self.store, BlobStore((folder / "blobs").as_uri()))
        self.plane = HostedPlane(self.store, keeper, folder / "secrets.key", **options)
        self.uploads = folder / "uploads"
        self.app = application(self.plane, Uploads(self.uploads, keeper, longest_blob), rate=rate)
        self._tokens: dict[str, str] = {}

    def token(self, role: str = "admin", **fields: Any) -> str:
        named = f"{role}{sorted(fields.items())}"
        if named not in self._tokens:
            request = TokenRequest(role=role, **fields)  # type: ignore[arg-type]
            self._tokens[named] = auth.create(self.store, request, self.store.now()).token
        return self._tokens[named]

    @asynccontextmanager
    async def client(self, token: str | None = None) -> AsyncIterator[httpx.AsyncClient]:
        """Give a client with a token, an admin's unless told otherwise; "" is none."""
        token = self.token() if token is None else token
        transport = httpx.ASGITransport(self.app)  # type: ignore[arg-type]
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with httpx.AsyncClient(transport=transport, base_url="http://plane", headers=headers) as client:
            yield client

    def ask(self, conversation: Callable[[httpx.AsyncClient], Awaitable[T]], token: str | None = None) -> T:
        async def whole() -> T:
            async with self.client(token) as client:
                return await conversation(client)

        return asyncio.run(whole())

    def one(self, method: str, path: str, *, token: str | None = None, **said: Any) -> httpx.Response:
        """Ask one thing."""
        return self.ask(lambda client: client.request(method, path, **said), token)

    def close(self) -> None:
        self.plane.close()
