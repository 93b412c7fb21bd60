"""Devices of a machine that several workers share, when two processes plan for one database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpulayer.control.engine import transitions
from gpulayer.control.store.store import open_store
from gpulayer.spec.records import JobRecord
from gpulayer.spec.states import Reason
from tests.control.engine import given
from tests.control.stored import InDatabase

ONE = {"accelerator": "cuda", "gpu_count": 1}


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[InDatabase]:
    """Two processes with one home open, and workers x and y on one machine with one device."""
    opened = InDatabase(lambda: open_store(tmp_path), processes=2)
    for name in "xy":
        worker = given.worker(name, machine="m", devices=given.gpus("m", 1))
        opened.register(worker.info, 1.0)
    yield opened
    opened.close()


def submit(plane: InDatabase, name: str, worker: str, *, priority: int = 50) -> None:
    spec = given.command(resources=ONE, placement={"workers": [worker]}, on_unschedulable="queue", priority=priority)
    plane.add(JobRecord(id=f"job-{name}", spec=spec), 1.0)


def test_two_that_plan_at_once_lease_a_device_once(plane: InDatabase) -> None:
    submit(plane, "first", "y")
    plane.schedule(2.0)
    submit(plane, "a", "x")
    plane.schedule(3.0)
    plane.change("job-first", lambda record: transitions.advance(record, given.ended(record), 4.0))

    def another_plans() -> None:
        """It gives the device to an urgent job; of job-a it says what was said before, and so writes nothing."""
        submit(plane, "urgent", "y", priority=90)
        plane.schedule(5.0)

    plane.meanwhile = another_plans
    plane.schedule(5.0)

    assert [task.job_id for task in plane.held()] == ["job-urgent"]


def test_the_device_of_a_lost_worker_is_not_given_to_its_neighbour(plane: InDatabase) -> None:
    submit(plane, "a", "x")
    plane.schedule(2.0)
    plane.set_state("wkr-x", "lost")
    plane.change("job-a", lambda record: transitions.lose_tasks(record, (0,), Reason.WORKER_LOST, 3.0))

    submit(plane, "b", "y")
    plane.schedule(4.0)

    assert [task.job_id for task in plane.held()] == ["job-a"]
    assert plane.job("job-b").why[1:] == ("wkr-y: needs 1 usable cuda device(s), 0 of them free now",)
