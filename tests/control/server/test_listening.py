"""The socket that a server listens on."""

from __future__ import annotations

import asyncio
import socket

from gpulayer.control.server import serving


def test_an_answer_in_two_pieces_does_not_wait_for_the_first_to_be_acknowledged() -> None:
    seen: list[int] = []

    class Connection(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            accepted = transport.get_extra_info("socket")
            seen.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            transport.close()

    async def meet(listening: socket.socket) -> None:
        server = await asyncio.get_running_loop().create_server(Connection, sock=listening)
        reader, writer = await asyncio.open_connection(*listening.getsockname())
        assert await reader.read() == b""
        writer.close()
        server.close()

    with serving.listening("127.0.0.1", 0) as sock:
        asyncio.run(meet(sock))
    assert seen == [1]
