"""kill -9 and SIGSTOP of every part, on machines of their own."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.network.cluster import STEPS, Cluster, begin, cluster, counted, ended, nothing_runs, worker, works_again
from tests.network.lan import Host
from tests.waiting import wait_for


def test_a_killed_rank_fails_the_job_by_name_and_ends_it_everywhere(plant: Cluster) -> None:
    plane = plant.open()
    job = begin(plant, plane, steps=100_000)
    on = plane.job(job.id).tasks[1].worker_name
    os.kill(plant.ranks(on)[0], signal.SIGKILL)
    record = ended(plane, job.id, within=40)
    assert (record.state, record.reason) == ("failed", "signalled")
    assert record.cause is not None
    assert record.cause.rank == 1
    nothing_runs(plant)
    works_again(plant, plane)


def test_a_killed_torchrun_fails_the_job_and_ends_it_everywhere(plant: Cluster) -> None:
    plane = plant.open()
    job = begin(plant, plane, steps=100_000)
    os.kill(plant.processes("blue", "torch.distributed.run")[0], signal.SIGKILL)
    record = ended(plane, job.id, within=40)
    assert (record.state, record.reason) == ("failed", "signalled")
    assert record.cause is not None
    assert plane.job(job.id).tasks[record.cause.node_rank].worker_name == "blue"
    nothing_runs(plant)
    works_again(plant, plane)


def test_a_killed_worker_takes_its_ranks_along_and_its_next_start_tells_the_rest(plant: Cluster) -> None:
    plane = plant.open()
    job = begin(plant, plane, steps=100_000)
    plant.kill_worker("blue")
    wait_for(lambda: not plant.ranks("blue"), within=10, what="the guard ends blue's ranks")
    record = ended(plane, job.id, within=plant.lease_s + 40)
    assert (record.state, record.reason) == ("failed", "worker_lost")
    nothing_runs(plant)
    before = counted(plane, job.id)
    plant.start_worker("blue")
    works_again(plant, plane)
    after = counted(plane, job.id)
    assert all(after[rank] == list(range(len(after[rank]))) and len(after[rank]) >= len(before[rank]) for rank in (0, 1))


def test_a_worker_that_stands_still_is_lost_and_ends_its_ranks_when_it_wakes(plant: Cluster) -> None:
    plane = plant.open()
    job = begin(plant, plane, steps=100_000)
    hosts = plant.processes("blue", "worker start")
    for pid in hosts:
        os.kill(pid, signal.SIGSTOP)
    record = ended(plane, job.id, within=plant.lease_s + 40)
    assert (record.state, record.reason) == ("failed", "worker_lost")
    assert worker(plane, "blue").state == "lost"
    for pid in hosts:
        os.kill(pid, signal.SIGCONT)
    nothing_runs(plant)
    works_again(plant, plane)
    assert plane.job(job.id).reason == record.reason


def test_every_line_is_there_once_and_in_order_though_the_server_was_killed_thirty_times(
    hosts: dict[str, Host], tmp_path: Path
) -> None:
    with cluster(hosts, lease_s=90.0) as plant:  # as it is unless said otherwise: in a shorter one nobody could answer at all
        plant.start_server()
        for name in ("red", "blue"):
            plant.start_worker(name)
        plane = plant.open()
        enough = tmp_path / "enough"
        job = begin(plant, plane, enough, steps=100_000)
        for _ in range(30):
            plant.kill_server()
            plant.start_server()
            assert not plane.job(job.id).state.terminal
        enough.touch()
        record = ended(plane, job.id, within=120)
        assert record.state == "succeeded", record.sentence
        seen = counted(plane, job.id)
        assert seen == {rank: list(range(len(seen[rank]))) for rank in (0, 1)}
        assert min(map(len, seen.values())) > 30


@pytest.mark.parametrize("state", ["queued", "preparing", "cancelling", "uploading"])
def test_a_server_that_is_killed_in_any_state_of_a_job_goes_on_where_it_was(hosts: dict[str, Host], state: str) -> None:
    with cluster(hosts, lease_s=60.0) as plant:  # a slow machine may need a good while to start a server
        plant.start_server()
        for name in ("red", "blue"):
            plant.start_worker(name)
        go_on(plant, state)


def go_on(plant: Cluster, state: str) -> None:
    plane = plant.open()
    if state == "queued":
        other = begin(plant, plane, steps=30)
        job = plant.submit(plane, "counting.py", 5, 0)
        assert plane.job(job.id).state == "queued"
        plant.kill_server()
        plant.start_server()
        assert ended(plane, other.id, within=90).state == "succeeded"
    elif state == "preparing":
        job = plant.submit(plane, "counting.py", 5, 0)
        plant.kill_server()
        plant.start_server()
    elif state == "cancelling":
        job = begin(plant, plane, steps=100_000)
        plane.cancel(job.id)
        plant.kill_server()
        plant.start_server()
    else:
        job = begin(plant, plane, steps=STEPS)
        wait_for(lambda: len(counted(plane, job.id)[0]) > STEPS - 3, within=60, what="it is nearly done")
        plant.kill_server()
        wait_for(lambda: not plant.ranks("red"), within=60, what="it has ended while nobody heard")
        plant.start_server()
    record = ended(plane, job.id, within=120)
    assert record.state == ("cancelled" if state == "cancelling" else "succeeded"), record.sentence
    if state != "cancelling":
        assert sorted(a.path for a in plane.artifacts(job.id)) == ["node0/rank0.txt", "node1/rank1.txt"]
    nothing_runs(plant)
