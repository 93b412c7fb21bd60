"""Whatever happens in whatever order: no device twice, no job stuck or lost from sight, no illegal move."""

from __future__ import annotations

from collections import Counter
from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gpulayer.spec.records import JobRecord
from gpulayer.spec.states import JobState, Reason, TaskState
from tests.control.engine import given
from tests.control.engine.simulated import Plane

ONE = {"accelerator": "cuda", "gpu_count": 1}
SPECS: dict[str, Any] = {
    "command": given.command(),
    "quick": given.command(timeout_s=20.0, queue_timeout_s=40.0),
    "one gpu": given.command(resources=ONE, max_attempts=2, on_unschedulable="queue"),
    "gang": given.gang(2, 1, resources=ONE, timeout_s=50.0),
    "wide gang": given.gang(3, 1, priority=60, on_unschedulable="queue"),
    "script": given.gang(2, 2, calls=given.CALLS),
    "script on one": given.gang(1, 1, calls=given.CALLS, timeout_s=500.0),
    "never": given.gang(9, 1),
}


def fleet() -> Plane:
    devices = given.gpus("m", 2)
    workers = [
        given.worker("a", machine="m", devices=devices),
        given.worker("b", machine="m", devices=devices, slots=2),
        given.worker("c", machine="n", devices=given.gpus("n", 1)),
        given.worker("d"),
    ]
    return Plane({each.info.id: each for each in workers})


class Histories(RuleBasedStateMachine):
    """Jobs, workers and callers in any order, with late and repeated reports."""

    def __init__(self) -> None:
        super().__init__()
        self.plane = fleet()

    @rule(kind=st.sampled_from(sorted(SPECS)))
    def submit(self, kind: str) -> None:
        name = f"job-{len(self.plane.jobs)}"
        self.plane.submit(JobRecord(id=name, spec=SPECS[kind]))

    @rule()
    def schedule(self) -> None:
        self.plane.schedule()

    @precondition(lambda self: self.plane.active())
    @rule(data=st.data(), times=st.integers(1, 12))
    def work(self, data: st.DataObject, times: int) -> None:
        for _ in range(times):
            active = self.plane.active()
            if active:
                self.plane.work(data.draw(st.sampled_from(active)))

    @precondition(lambda self: self.plane.active())
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        job, _, node = data.draw(st.sampled_from(self.plane.active()))
        record = self.plane.jobs[job]
        rank = node * record.procs_per_worker
        reports = [
            given.fault(record, node, kind="signal", rank=rank, signal=9),
            given.fault(record, node, kind="communication", rank=rank, error=given.error(rank, communication=True)),
            given.ended(record, node, TaskState.FAILED, Reason.EXITED, exit_code=1),
            given.ended(record, node, TaskState.TIMED_OUT, Reason.TIMEOUT),
            given.records(record, rank, 0, "failed", given.error(rank)),
            given.arrives(record, rank, 0, function="test"),
            given.leaves(record, rank, 1),
        ]
        self.plane.tell(data.draw(st.sampled_from(reports)))

    @precondition(lambda self: self.plane.heard)
    @rule(data=st.data())
    def hear_an_old_report_again(self, data: st.DataObject) -> None:
        self.plane.hear(data.draw(st.sampled_from(self.plane.heard)))

    @rule(name=st.sampled_from("abcd"), reason=st.sampled_from([Reason.WORKER_LOST, Reason.CALLER_AND_WORKER_GONE]))
    def lose_a_worker(self, name: str, reason: Reason) -> None:
        self.plane.lose(f"wkr-{name}", reason)

    @precondition(lambda self: self.plane.away)
    @rule(data=st.data())
    def a_worker_comes_back(self, data: st.DataObject) -> None:
        self.plane.come_back(data.draw(st.sampled_from(sorted(self.plane.away))))

    @precondition(lambda self: self.plane.jobs)
    @rule(data=st.data(), reason=st.sampled_from([Reason.CANCELLED_BY_USER, Reason.CALLER_GONE]), kill=st.booleans())
    def cancel(self, data: st.DataObject, reason: Reason, kill: bool) -> None:
        self.plane.stop(self._draw(data), reason, kill=kill)

    @precondition(lambda self: self.plane.jobs)
    @rule(data=st.data(), say=st.sampled_from(["go", "state", "farewell"]))
    def the_caller_speaks(self, data: st.DataObject, say: str) -> None:
        job = self._draw(data)
        if self.plane.jobs[job].spec.calls is not None:
            speak = {"go": self.plane.let_go, "state": self.plane.send_state, "farewell": self.plane.farewell}
            speak[say](job)

    @rule(seconds=st.sampled_from([0.1, 3.0, 30.0, 130.0]))
    def time_passes(self, seconds: float) -> None:
        self.plane.now += seconds
        self.plane.tick()

    def _draw(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.plane.jobs)))

    @invariant()
    def no_device_is_held_twice(self) -> None:
        held = Counter((task.machine, device.uuid) for task in self.plane.holds.values() for device in task.record.devices)
        assert all(count == 1 for count in held.values()), held

    @invariant()
    def no_worker_has_more_tasks_than_slots(self) -> None:
        for name, count in Counter(task.worker for task in self.plane.holds.values()).items():
            assert count <= self.plane.workers[name].info.slots

    @invariant()
    def a_running_job_has_a_live_task_and_an_ended_one_a_reason(self) -> None:
        for record in self.plane.jobs.values():
            live = [task for task in record.tasks if not task.state.terminal]
            assert bool(live) == (record.state is JobState.RUNNING)
            if record.state.terminal:
                assert record.reason is not None
                assert record.sentence
                assert record.ended_at is not None
                assert record.phase is None
                assert self.plane.events[record.id][-1].kind == "ended"

    def teardown(self) -> None:
        """Once everyone is there, does as told and nothing more is asked, every job comes to its end."""
        for name in sorted(self.plane.workers):
            self.plane.come_back(name)
        for _ in range(200):
            open_jobs = [record for record in self.plane.jobs.values() if not record.state.terminal]
            if not open_jobs:
                break
            self.plane.now += 10.0
            self.plane.tick()
            for record in open_jobs:
                if record.spec.calls is not None:
                    self.plane.send_state(record.id)
                    self.plane.farewell(record.id)
            self.plane.schedule()
            for key in self.plane.active():
                if key in self.plane.active():
                    self.plane.work(key)
        else:
            raise AssertionError(f"stuck: {open_jobs}")
        self.a_running_job_has_a_live_task_and_an_ended_one_a_reason()
        for name in sorted(self.plane.workers):
            self.plane.come_back(name)
        assert not self.plane.holds  # all slots and devices are free again


Histories.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestHistories = Histories.TestCase
