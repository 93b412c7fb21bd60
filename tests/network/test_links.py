"""Links between machines that are cut, slow, or lose packets."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.network.cluster import (
    PAUSE_S,
    STEPS,
    Cluster,
    begin,
    cluster,
    counted,
    ended,
    nothing_runs,
    worker,
    works_again,
)
from tests.network.lan import Host
from tests.waiting import wait_for


def test_a_link_that_is_back_before_the_lease_is_over_costs_nothing(hosts: dict[str, Host]) -> None:
    with cluster(hosts, lease_s=21.0) as plant:
        plant.start()
        plane = plant.open()
        job = begin(plant, plane)
        before = len(counted(plane, job.id)[1])
        plant.hosts["blue"].cut()
        # Rank 0 can't go on without rank 1: when its lines stand still, the cut is felt.
        subprocess.run(["sleep", str(plant.lease_s / 3)], check=True)  # the length of the cut is what is tried
        plant.hosts["blue"].restore()
        record = ended(plane, job.id, within=120)
        assert record.state == "succeeded", record.sentence
        assert counted(plane, job.id) == {rank: list(range(STEPS)) for rank in (0, 1)}
        assert before < STEPS
        assert worker(plane, "blue").state == "online"


def test_a_task_runs_on_to_its_end_while_its_worker_is_cut_off_and_its_lines_catch_up(hosts: dict[str, Host]) -> None:
    with cluster(hosts, lease_s=90.0) as plant:  # as it is unless said otherwise
        plant.start_server()
        plant.start_worker("blue")
        plane = plant.open()
        job = plant.submit(plane, "counting.py", STEPS, PAUSE_S, num_workers=1)
        wait_for(lambda: len(counted(plane, job.id).get(0, ())) > 4, within=90, what="it counts")
        plant.hosts["blue"].cut()
        before = len(counted(plane, job.id)[0])
        wait_for(lambda: not plant.ranks("blue"), within=60, what="it ends while nobody hears of it")
        assert plane.job(job.id).state == "running"
        assert len(counted(plane, job.id)[0]) <= before + 5
        plant.hosts["blue"].restore()
        record = ended(plane, job.id, within=90)
        assert record.state == "succeeded", record.sentence
        assert counted(plane, job.id) == {0: list(range(STEPS))}
        assert [each.path for each in plane.artifacts(job.id)] == ["node0/rank0.txt"]


def test_a_link_that_stays_cut_loses_the_worker_and_a_returning_one_is_harmless(plant: Cluster) -> None:
    plane = plant.open()
    job = begin(plant, plane, steps=100_000)
    plant.hosts["blue"].cut()
    record = ended(plane, job.id, within=plant.lease_s + 40)
    assert (record.state, record.reason) == ("failed", "worker_lost")
    assert "blue" in record.sentence
    assert worker(plane, "blue").state == "lost"
    nothing_runs(plant)  # blue's by its own clock: it hears nobody
    seen = counted(plane, job.id)
    plant.hosts["blue"].restore()
    works_again(plant, plane)
    after = plane.job(job.id)
    assert (after.state, after.reason, after.sentence) == (record.state, record.reason, record.sentence)
    late = counted(plane, job.id)
    assert all(late[rank] == list(range(len(late[rank]))) and len(late[rank]) >= len(seen[rank]) for rank in (0, 1))


def test_a_job_succeeds_on_a_link_that_loses_one_packet_in_twenty(plant: Cluster) -> None:
    plane = plant.open()
    plant.hosts["blue"].lose(5)
    record = ended(plane, plant.submit(plane, "counting.py", 20, 0).id, within=150)
    assert record.state == "succeeded", record.sentence
    assert counted(plane, record.id) == {rank: list(range(20)) for rank in (0, 1)}


def test_on_a_link_that_loses_every_third_packet_states_stay_true(plant: Cluster) -> None:
    plane = plant.open()
    plant.hosts["blue"].lose(30)
    record = ended(plane, plant.submit(plane, "counting.py", 20, 0, timeout_s=30, rendezvous_timeout_s=20).id, within=150)
    assert record.reason is not None
    assert record.sentence
    nothing_runs(plant, within=30)
    ranks_seen = counted(plane, record.id)
    assert all(steps == list(range(len(steps))) for steps in ranks_seen.values())
    if record.state == "succeeded":
        assert ranks_seen == {rank: list(range(20)) for rank in (0, 1)}
    plant.hosts["blue"].restore()
    works_again(plant, plane)


def test_a_blocked_port_is_named_with_both_workers_before_anything_starts(plant: Cluster) -> None:
    plane = plant.open()
    for name in ("red", "blue"):
        plant.hosts[name].filter("tcp dport 29555 drop")
    record = ended(plane, plant.submit(plane, "counting.py", 5, 0, rendezvous={"port": 29555}).id, within=60)
    assert (record.state, record.reason) == ("failed", "rendezvous_failed")
    assert all(word in record.sentence for word in ("red", "blue", "29555")), record.sentence
    assert counted(plane, record.id) == {}
    nothing_runs(plant)


def test_a_job_survives_a_line_to_the_plane_that_is_five_seconds_long_for_a_while(
    hosts: dict[str, Host], tmp_path: Path
) -> None:
    delay = tmp_path / "delay"
    delay.write_text("0")
    with cluster(hosts, lease_s=21.0) as plant:
        plant.start_server()
        between = hosts["between"]
        argv = [sys.executable, str(Path(__file__).with_name("relay.py")), "9000", hosts["server"].address, "8470", str(delay)]
        relay = between.popen(*argv, stdout=subprocess.PIPE)
        assert relay.stdout is not None
        with relay.stdout:
            assert relay.stdout.readline() == b"up\n"
        plant.start_worker("red")
        plant.start_worker("blue", by=f"https://{between.address}:9000")
        plane = plant.open()
        job = begin(plant, plane)
        delay.write_text("5")
        wait_for(lambda: len(counted(plane, job.id)[0]) == STEPS, within=120, what="rank 0 counts to the end")
        delay.write_text("0")
        record = ended(plane, job.id, within=60)
        assert record.state == "succeeded", record.sentence
        assert counted(plane, job.id) == {rank: list(range(STEPS)) for rank in (0, 1)}
