"""Several hosts on one machine, for what only shows when packets cross a link."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.network.cluster import Cluster, cluster
from tests.network.lan import Host, missing_for_hosts, network

LEASE_S = 6.0
"""Short, so that a lost worker is lost soon; everything else about leases is as in life."""


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[dict[str, Host]]:
    """A server, two workers and a host in between, each on a host of its own."""
    missing = missing_for_hosts()
    if missing:
        pytest.skip(missing)
    with network(tmp_path / "hosts", ("server", "red", "blue", "between")) as found:
        yield found


@pytest.fixture
def plant(hosts: dict[str, Host]) -> Iterator[Cluster]:
    """A server and two workers that serve it."""
    with cluster(hosts, LEASE_S) as made:
        made.start()
        yield made
