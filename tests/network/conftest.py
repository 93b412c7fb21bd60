"""Several hosts on one machine, for what only shows when packets cross a link."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.network.lan import Host, missing_for_hosts, network


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[dict[str, Host]]:
    """A server, two workers and a caller, each on a host of its own."""
    missing = missing_for_hosts()
    if missing:
        pytest.skip(missing)
    with network(tmp_path / "hosts", ("server", "red", "blue", "caller")) as found:
        yield found
