"""Jobs on workers that are machines of their own, while nothing is wrong."""

from __future__ import annotations

from tests.network.cluster import Cluster, counted, ended


def test_a_gang_on_two_machines_meets_over_the_network_and_its_files_and_lines_come_back(plant: Cluster) -> None:
    plane = plant.open()
    job = plant.submit(plane, "counting.py", 20, 0)
    record = ended(plane, job.id, within=90)
    assert record.state == "succeeded", record.sentence
    assert counted(plane, job.id) == {0: list(range(20)), 1: list(range(20))}
    assert sorted(a.path for a in plane.artifacts(job.id)) == ["node0/rank0.txt", "node1/rank1.txt"]
    assert {task.worker_name for task in record.tasks} == {"red", "blue"}
    assert record.rendezvous is not None
    assert record.rendezvous.address in {plant.hosts["red"].address, plant.hosts["blue"].address}
