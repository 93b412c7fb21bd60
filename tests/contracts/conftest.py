"""The databases that a store must work on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpulayer.control.store.store import Store, open_store


@pytest.fixture(params=["sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """An empty store on each database in turn."""
    assert request.param == "sqlite"
    folder = tmp_path / "plane"
    folder.mkdir()
    opened = open_store(folder)
    yield opened
    opened.close()
