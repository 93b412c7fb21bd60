"""A machine whose disk is full."""

from __future__ import annotations

import os

from tests.network.cluster import cluster, ended, nothing_runs, works_again
from tests.network.conftest import LEASE_S
from tests.network.lan import Host


def test_a_job_that_fills_the_disk_of_a_worker_fails_with_that_and_the_worker_goes_on(hosts: dict[str, Host]) -> None:
    with cluster(hosts, LEASE_S) as plant:
        plant.start_server()
        for name in ("red", "blue"):
            plant.work(name).mkdir()
            hosts[name].do("mount", "-t", "tmpfs", "-o", "size=64m", "disk", str(plant.work(name)))
            hosts[name].do("mount", "-t", "tmpfs", "-o", "size=64m", "disk", f"/tmp/gpulayer-{os.getuid()}")
            plant.start_worker(name)
        plane = plant.open()
        record = ended(plane, plant.submit(plane, "filling.py").id, within=90)
        assert record.state == "failed"
        assert "No space left" in " ".join(line.text for line in plane.lines(record.id))
        assert record.cause is not None
        assert record.cause.rank == 1
        nothing_runs(plant)
        works_again(plant, plane)
