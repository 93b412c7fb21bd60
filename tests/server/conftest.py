"""Servers that end with the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server.running import Serve, Server


@pytest.fixture
def serve(tmp_path: Path, home: Path) -> Iterator[Serve]:
    """Start servers: ``serve("--lease-s", "3")``, ``serve(data=..., database=...)``."""
    made: list[Server] = []

    def start(*options: str, data: Path | None = None, port: int = 0, **given: Any) -> Server:
        folder = data or tmp_path / f"server{len(made)}"
        folder.mkdir(exist_ok=True)
        made.append(Server(folder, *options, **given))
        return made[-1].start(port)

    yield start
    for server in made:
        server.close()


@pytest.fixture
def server(serve: Serve) -> Server:
    """One server with nothing in it."""
    return serve()


@pytest.fixture
def admin(server: Server) -> Iterator[httpx.Client]:
    with server.asked_by("admin") as client:
        yield client
