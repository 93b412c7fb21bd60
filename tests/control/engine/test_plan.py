"""Which jobs the plan places, where, and what it tells the others."""

from __future__ import annotations

from typing import Any

import pytest

from gpulayer.spec.records import Plan
from tests.control.engine.given import command, gang, gpus, plan, queued, worker

CUDA = {"accelerator": "cuda", "gpu_count": 1}

CUDA_AUTO = {"accelerator": "cuda"}


def where(made: Plan) -> dict[str, list[str]]:
    return {choice.job_id[4:]: [each[4:] for each in choice.workers] for choice in made.placements}


def why(made: Plan) -> dict[str, tuple[str, ...]]:
    return {waiting.job_id[4:]: waiting.sentences for waiting in made.waiting}


def never(made: Plan) -> list[str]:
    return [waiting.job_id[4:] for waiting in made.waiting if waiting.never]


# --- gangs -------------------------------------------------------------------------------------------------------


def test_a_gang_gets_all_its_workers_in_one_step() -> None:
    made = plan([queued(gang(2, 3))], [worker("x"), worker("y"), worker("z")])

    assert where(made) == {"a": ["x", "y"]}
    assert made.placements[0].procs_per_worker == 3


def test_a_gang_gets_none_rather_than_some() -> None:
    made = plan([queued(gang(3))], [worker("x"), worker("y"), worker("z", busy=1)])

    assert where(made) == {}
    assert never(made) == []
    assert why(made)["a"] == ("waits for 3 workers together: 2 of 3 compatible can take a share now", "wkr-z: is busy")


def test_a_process_that_started_workers_gets_these_and_no_standing_one() -> None:
    workers = [worker("x"), worker("y", owner="prc-1"), worker("z", owner="prc-1", busy=1)]
    one, two = queued(command(), owner="prc-1"), queued(gang(2), "b", owner="prc-1")

    assert where(plan([one], workers)) == {"a": ["y"]}
    assert where(plan([two], workers)) == {}
    assert why(plan([two], workers))["b"][1] == "wkr-x: does not have the environment of the process that submits"


def test_a_process_without_workers_gets_standing_ones() -> None:
    workers = [worker("x", owner="prc-2"), worker("y"), worker("z")]

    assert where(plan([queued(gang(2), owner="prc-1")], workers)) == {"a": ["y", "z"]}


def test_a_job_that_names_a_standing_worker_gets_it_whoever_submits_it() -> None:
    named = command(placement={"workers": ["x"]})

    assert where(plan([queued(named, owner="prc-1")], [worker("x"), worker("y", owner="prc-1")])) == {"a": ["x"]}


def test_the_workers_of_a_gang_have_one_torch_version() -> None:
    workers = [worker("x", torch="2.1.0"), worker("y", torch="2.2.0"), worker("z", torch="2.1.0")]

    assert where(plan([queued(gang(2))], workers)) == {"a": ["x", "z"]}


def test_a_gang_whose_workers_could_never_have_one_torch_version_never_runs() -> None:
    made = plan([queued(gang(2))], [worker("x", torch="2.1.0"), worker("y", torch="2.2.0")])

    assert never(made) == ["a"]
    assert why(made)["a"][0] == "no eligible workers: the job needs 2 with the same torch version, found 2.1.0, 2.2.0"


def test_free_workers_that_differ_in_torch_are_no_gang_yet() -> None:
    workers = [worker("x", torch="2.1.0"), worker("y", torch="2.2.0"), worker("z", torch="2.1.0", busy=1)]

    made = plan([queued(gang(2))], workers)

    assert never(made) == []
    assert why(made)["a"][0] == (
        "waits for 2 workers together: 2 of 3 compatible can take a share now, but not with the same torch version"
    )


def test_too_few_compatible_workers_is_never() -> None:
    made = plan([queued(gang(3))], [worker("x"), worker("y"), worker("z", advertise_address=None)])

    assert never(made) == ["a"]
    assert why(made)["a"] == (
        "no eligible workers: the job needs 3, 2 could take a share",
        "wkr-z: has no advertise_address, which more than one node needs",
    )


def test_never_is_said_with_every_workers_reason() -> None:
    made = plan([queued(command(resources=CUDA | {"torch": ">=2.2"}))], [worker("x"), worker("y", torch="2.1.0")])

    assert never(made) == ["a"]
    assert why(made)["a"] == (
        "no eligible worker",
        "wkr-x: needs 1 usable cuda device(s), worker has 0",
        "wkr-y: needs 1 usable cuda device(s), worker has 0; torch 2.1.0 does not satisfy >=2.2",
    )


def test_many_workers_with_one_reason_are_counted() -> None:
    made = plan([queued(command(resources=CUDA))], [worker(f"w{index:02}") for index in range(40)])

    assert why(made)["a"][1:] == ("40 workers (wkr-w00, wkr-w01, ...): needs 1 usable cuda device(s), worker has 0",)


def test_an_empty_registry_says_so() -> None:
    made = plan([queued(command())], [])

    assert never(made) == ["a"]
    assert why(made)["a"] == ("no eligible worker: none is registered",)


# --- devices -----------------------------------------------------------------------------------------------------


def test_workers_of_one_machine_get_disjoint_devices() -> None:
    devices = gpus("m", 4)
    workers = [worker("x", machine="m", devices=devices), worker("y", machine="m", devices=devices)]

    made = plan([queued(gang(2, 2, resources={"accelerator": "cuda", "gpu_count": 2}))], workers)

    given = [device.uuid for of in made.placements[0].devices for device in of]
    assert sorted(given) == sorted(device.uuid for device in devices)


def test_a_device_is_not_given_twice_in_one_plan() -> None:
    devices = gpus("m", 1)
    workers = [worker("x", machine="m", devices=devices), worker("y", machine="m", devices=devices)]

    made = plan([queued(command(resources=CUDA), "a", at=1), queued(command(resources=CUDA), "b", at=2)], workers)

    assert where(made) == {"a": ["x"]}
    assert "b" in why(made)
    assert never(made) == []


def test_a_device_that_another_worker_of_the_machine_holds_is_not_given() -> None:
    devices = gpus("m", 1)
    holder = worker("x", machine="m", devices=devices, busy=1, leased=(devices[0].uuid,))

    made = plan([queued(command(resources=CUDA))], [holder, worker("y", machine="m", devices=devices)])

    assert why(made)["a"][1:] == ("wkr-x: is busy", "wkr-y: needs 1 usable cuda device(s), 0 of them free now")


def test_a_lost_worker_takes_nothing_and_keeps_its_devices_from_its_neighbours() -> None:
    devices = gpus("m", 1)
    lost = worker("x", machine="m", devices=devices, state="lost", leased=(devices[0].uuid,))

    made = plan([queued(command(resources=CUDA))], [lost, worker("y", machine="m", devices=devices)])

    assert why(made)["a"][1:] == ("wkr-y: needs 1 usable cuda device(s), 0 of them free now",)


def test_the_same_uuid_on_another_machine_is_another_device() -> None:
    devices = gpus("m", 1)
    holder = worker("x", machine="m", devices=devices, busy=1, leased=(devices[0].uuid,))

    made = plan([queued(command(resources=CUDA))], [holder, worker("y", machine="n", devices=devices)])

    assert where(made) == {"a": ["y"]}


def test_a_gang_that_its_one_machine_could_never_give_devices_to_never_runs() -> None:
    devices = gpus("m", 1)
    workers = [worker("x", machine="m", devices=devices), worker("y", machine="m", devices=devices)]

    made = plan([queued(gang(2, resources=CUDA))], workers)

    assert never(made) == ["a"]
    assert "devices of their own" in why(made)["a"][0]


@pytest.mark.parametrize(
    ("story", "workers", "devices"),
    [
        ("every worker can", [worker("x", devices=gpus("x", 2)), worker("y", devices=gpus("y", 2))], 2),
        ("one worker has none", [worker("x", devices=gpus("x", 2)), worker("y")], 0),
        ("one has too few for its processes", [worker("x", devices=gpus("x", 2)), worker("y", devices=gpus("y", 1))], 0),
        ("nobody has any", [worker("x"), worker("y")], 0),
    ],
)
def test_auto_is_cuda_only_where_every_process_gets_a_device(story: str, workers: list[Any], devices: int) -> None:
    made = plan([queued(gang(2, 2))], workers)

    assert [len(of) for of in made.placements[0].devices] == [devices, devices], story


def test_auto_prefers_the_workers_with_devices_and_cpu_those_without() -> None:
    workers = [worker("gpu", devices=gpus("m", 1)), worker("cpu")]

    assert where(plan([queued(command())], workers)) == {"a": ["gpu"]}
    assert where(plan([queued(command(resources={"accelerator": "cpu"}))], workers)) == {"a": ["cpu"]}


def test_a_small_worker_is_taken_before_a_big_one() -> None:
    workers = [worker("big", devices=gpus("b", 8)), worker("small", devices=gpus("s", 1))]

    assert where(plan([queued(command(resources=CUDA))], workers)) == {"a": ["small"]}


# --- targets -----------------------------------------------------------------------------------------------------


def test_fallback_targets_are_tried_in_their_order() -> None:
    spec = command(placement={"target": "remote", "fallback_targets": ["cloud", "local"]})
    local, cloud, remote = worker("l"), worker("c", origin="provider"), worker("r", origin="existing")

    assert where(plan([queued(spec)], [local, cloud, remote])) == {"a": ["r"]}
    assert where(plan([queued(spec)], [local, cloud])) == {"a": ["c"]}
    assert where(plan([queued(spec)], [local])) == {"a": ["l"]}


def test_a_gang_is_not_spread_over_targets() -> None:
    spec = gang(2, placement={"target": "remote", "fallback_targets": ["local"]})

    assert where(plan([queued(spec)], [worker("l"), worker("r", origin="existing")])) == {}


def test_a_local_job_never_moves_elsewhere_on_its_own() -> None:
    made = plan([queued(command())], [worker("r", origin="existing"), worker("c", origin="provider")])

    assert never(made) == ["a"]


# --- order and reservations ----------------------------------------------------------------------------------------


def test_priority_comes_first_then_age() -> None:
    jobs = [
        queued(command(), "young", at=3),
        queued(command(), "old", at=1),
        queued(command(priority=90), "urgent", at=9),
    ]

    assert where(plan(jobs, [worker("x"), worker("y")])) == {"urgent": ["x"], "old": ["y"]}


def test_a_blocked_gang_keeps_a_later_job_from_the_workers_it_waits_for() -> None:
    big, small = queued(gang(2), "big", at=1), queued(command(), "small", at=2)

    made = plan([big, small], [worker("x"), worker("y", busy=1)])

    assert where(made) == {}
    assert "wkr-x: is reserved for job-big, which waits for more workers" in why(made)["small"]


def test_a_later_job_may_use_a_worker_outside_the_reservation() -> None:
    jobs = [queued(gang(2), "big", at=1), queued(command(), "small", at=2)]

    made = plan(jobs, [worker("x"), worker("y", busy=1), worker("no-address", advertise_address=None)])
    assert where(made) == {"small": ["no-address"]}


@pytest.mark.parametrize(
    ("timeout_s", "starts"), [(50.0, True), (99.0, True), (101.0, False), (None, False)], ids=["short", "fits", "long", "none"]
)
def test_a_later_job_may_use_a_reserved_worker_if_it_ends_in_time(timeout_s: float | None, starts: bool) -> None:
    jobs = [queued(gang(2), "big", at=1), queued(command(timeout_s=timeout_s), "small", at=2)]

    made = plan(jobs, [worker("x"), worker("y", busy=1, busy_until=110.0)], now=10.0)

    assert where(made) == ({"small": ["x"]} if starts else {})


def test_nobody_goes_before_a_gang_whose_start_nobody_knows() -> None:
    jobs = [queued(gang(2), "big", at=1), queued(command(timeout_s=1.0), "small", at=2)]

    assert where(plan(jobs, [worker("x"), worker("y", busy=1)])) == {}


def test_a_reservation_names_idle_workers_then_those_that_are_free_soonest() -> None:
    jobs = [queued(gang(2), "big", at=1), queued(command(placement={"workers": ["y"]}), "small", at=2)]
    workers = [worker("z", busy=1, busy_until=500.0), worker("x"), worker("y", busy=1, slots=2, busy_until=None)]

    made = plan(jobs, workers)

    assert where(made) == {"big": ["x", "y"]}  # y has a second slot

    workers[2] = worker("y", busy=1, busy_until=900.0)
    late = queued(command(timeout_s=499.0), "late", at=3)
    assert where(plan([jobs[0], late], workers)) == {"late": ["x"]}  # z is waited for, until 500


def test_a_lower_priority_may_not_take_what_a_higher_one_waits_for() -> None:
    jobs = [queued(gang(2, priority=60), "high", at=2), queued(command(priority=50), "low", at=1)]

    assert where(plan(jobs, [worker("x"), worker("y", busy=1)])) == {}


def test_only_the_first_blocked_gang_of_a_priority_reserves() -> None:
    jobs = [
        queued(gang(2, placement={"labels": {"zone": "a"}}), "first", at=1),
        queued(gang(2, placement={"labels": {"zone": "b"}}), "second", at=2),
        queued(command(placement={"labels": {"zone": "b"}}), "small", at=3),
    ]
    zones = [worker("a1", labels={"zone": "a"}), worker("a2", labels={"zone": "a"}, busy=1)]
    zones += [worker("b1", labels={"zone": "b"}), worker("b2", labels={"zone": "b"}, busy=1)]

    assert where(plan(jobs, zones)) == {"small": ["b1"]}


def test_devices_that_a_blocked_job_waits_for_are_not_taken_through_a_neighbour() -> None:
    devices = gpus("m", 2)
    workers = [
        worker("x", machine="m", devices=devices, busy=1, leased=(devices[0].uuid,)),
        worker("y", machine="m", devices=devices),
        worker("z", machine="m", devices=devices),
    ]
    two = queued(command(resources={"accelerator": "cuda", "gpu_count": 2}), "two", at=1)
    one = queued(command(resources=CUDA), "one", at=2)

    assert where(plan([two, one], workers)) == {}


def test_a_job_that_never_runs_reserves_nothing() -> None:
    jobs = [queued(gang(9), "never", at=1), queued(command(), "small", at=2)]

    assert where(plan(jobs, [worker("x")])) == {"small": ["x"]}


def test_two_slots_take_two_jobs() -> None:
    jobs = [queued(command(), name, at=at) for at, name in enumerate("abc")]

    assert where(plan(jobs, [worker("x", slots=2)])) == {"a": ["x"], "b": ["x"]}


def test_the_workers_of_a_gang_are_distinct_whatever_their_slots() -> None:
    assert never(plan([queued(gang(2))], [worker("x", slots=8)])) == ["a"]


def processes(made: Plan) -> dict[str, tuple[int, int]]:
    """Return the processes per worker of each placed job, and the devices that each worker gives."""
    return {
        each.job_id.removeprefix("job-"): (each.procs_per_worker, len(each.devices[0]))
        for each in made.placements
        if len({len(of) for of in each.devices}) == 1
    }


def test_auto_processes_are_the_most_that_every_chosen_worker_can_give() -> None:
    fleet = [worker("one", devices=gpus("a", 1)), worker("four", devices=gpus("b", 4)), worker("eight", devices=gpus("c", 8))]
    made = plan([queued(gang(2, "auto"))], fleet)
    assert where(made) == {"a": ["four", "eight"]}
    assert processes(made) == {"a": (4, 4)}


def test_auto_counts_the_devices_that_are_free_now() -> None:
    devices = gpus("a", 4)
    holder = worker("holder", machine="a", devices=devices, busy=1, leased=(devices[0].uuid,))
    made = plan([queued(gang(1, "auto", resources=CUDA_AUTO))], [holder, worker("x", machine="a", devices=devices)])
    assert processes(made) == {"a": (3, 3)}


def test_workers_of_one_machine_share_its_devices_evenly() -> None:
    devices = gpus("a", 8)
    made = plan([queued(gang(2, "auto"))], [worker(name, machine="a", devices=devices) for name in ("x", "y")])
    assert processes(made) == {"a": (4, 4)}


@pytest.mark.parametrize("resources", [{}, {"accelerator": "cpu"}])
def test_auto_without_devices_is_one_process(resources: dict[str, Any]) -> None:
    fleet = [worker("x"), worker("y", devices=gpus("y", 2) if resources else ())]
    assert processes(plan([queued(gang(2, "auto", resources=resources))], fleet)) == {"a": (1, 0)}


def test_auto_with_a_count_of_devices_is_that_count_and_waits_for_it() -> None:
    two = {"accelerator": "cuda", "gpu_count": 2}
    assert processes(plan([queued(gang(1, "auto", resources=two))], [worker("x", devices=gpus("x", 4))])) == {"a": (2, 2)}
    assert never(plan([queued(gang(1, "auto", resources=two))], [worker("x", devices=gpus("x", 1))])) == ["a"]


def test_auto_on_cuda_needs_a_device_everywhere() -> None:
    made = plan([queued(gang(2, "auto", resources=CUDA_AUTO))], [worker("x", devices=gpus("x", 2)), worker("y")])
    assert why(made)["a"][1:] == ("wkr-y: needs 1 usable cuda device(s), worker has 0",)
