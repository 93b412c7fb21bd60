"""A connection to a server: there are only so many, and one that says nothing doesn't last."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

IDLE_S = 75
"""How long a connection may stand idle, before its first request as after its last."""
_FULL = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


def connection_class(most: int) -> type[asyncio.Protocol]:
    """Return the class of connections of a server that has descriptors for ``most`` of them."""

    class Connection(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > most:
                transport.write(_FULL)
                transport.close()
                return
            self.timeout_keep_alive_task = self.loop.call_later(IDLE_S, self.timeout_keep_alive_handler)

    return Connection
