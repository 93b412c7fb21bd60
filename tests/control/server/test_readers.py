"""Readers of logs that do not read cost little, and there are only so many of one token."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.types import Message

from gpulayer.control.server import readers
from tests.control.given import a_command, some_lines
from tests.control.server.asked import Asked

LINE = 100_000


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Asked]:
    made = Asked(tmp_path / "plane")
    yield made
    made.close()


def a_long_log(asked: Asked) -> str:
    job_id = asked.plane.submit(a_command(placement={"target": "remote"}, on_unschedulable="queue")).id
    asked.plane.append_lines(job_id, some_lines(job_id, ["x" * LINE] * 20))
    return job_id


class Stalled:
    """A reader that takes what comes first, and then waits until it is told to go on."""

    def __init__(self, asked: Asked, job_id: str) -> None:
        self.sizes: list[int] = []
        self.going_on = asyncio.Event()
        self._headers = [(b"authorization", f"Bearer {asked.token()}".encode())]
        self.task = asyncio.create_task(self._read(asked, job_id))

    async def _read(self, asked: Asked, job_id: str) -> None:
        path = f"/v1/jobs/{job_id}/lines"
        scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": self._headers}
        asked_for: list[Message] = [{"type": "http.request", "body": b"", "more_body": False}]

        async def receive() -> Message:
            if not asked_for:
                await asyncio.Event().wait()
            return asked_for.pop()

        async def send(message: Message) -> None:
            if message.get("body"):
                self.sizes.append(len(message["body"]))
                await self.going_on.wait()

        await asked.app(scope, receive, send)


def test_a_token_reads_only_so_many_logs_at_once(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "MOST", 1)
    job_id = a_long_log(asked)

    async def story() -> list[int]:
        stalled = Stalled(asked, job_id)
        while not stalled.sizes:
            await asyncio.sleep(0)
        path = f"/v1/jobs/{job_id}/lines?tail=1"
        async with asked.client() as same, asked.client(asked.token("user")) as other:
            during = [(await client.get(path)).status_code for client in (same, other)]
            assert len(stalled.sizes) == 1
            stalled.going_on.set()
            await stalled.task
            after = (await same.get(path)).status_code
        assert sum(stalled.sizes) > 20 * LINE
        assert max(stalled.sizes) < 256 * 1024 + 2 * LINE
        return [*during, after]

    assert asyncio.run(asyncio.wait_for(story(), 60)) == [429, 200, 200]
