"""An embedded plane in a home of its own, and a hosted one behind its HTTP application."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpulayer.control.server.app import EmbeddedPlane, open_home
from tests.control.server.asked import Asked


@pytest.fixture
def plane(home: Path) -> Iterator[EmbeddedPlane]:
    opened = open_home(home, "caller")
    yield opened
    opened.close()


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Asked]:
    made = Asked(tmp_path / "plane")
    yield made
    made.close()
