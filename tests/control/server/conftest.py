"""An embedded plane in a home of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpulayer.control.server.app import EmbeddedPlane, open_home


@pytest.fixture
def plane(home: Path) -> Iterator[EmbeddedPlane]:
    opened = open_home(home, "caller")
    yield opened
    opened.close()
