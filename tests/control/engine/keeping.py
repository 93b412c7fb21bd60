"""What a plane keeps, for the histories: in memory here, in a database elsewhere (see ``tests.control.stored``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from gpulayer.control.engine import placement, transitions
from gpulayer.control.engine.moves import Step
from gpulayer.control.engine.orders import order_of_lost, orders_for
from gpulayer.spec.events import Event
from gpulayer.spec.records import JobRecord, Order, Snapshot, TaskRecord, WorkerRecord
from gpulayer.spec.states import JobState, TaskState
from gpulayer.spec.workers import WorkerInfo

Decision = Callable[[JobRecord], Step]
Key = tuple[str, int, int]
"""A task: job, attempt, node rank."""


def key_of(task: TaskRecord) -> Key:
    return task.job_id, task.attempt, task.node_rank


class Keeping(Protocol):
    """Jobs and workers as a plane stores them. Every write is a compare-and-set: who was second decides anew."""

    meanwhile: Callable[[], None] | None
    """What someone else does between the reading and the writing of the next change or plan."""

    def reopen(self) -> None:
        """The plane's process dies and another one opens what is stored."""

    def add(self, record: JobRecord, now: float) -> None: ...

    def jobs(self) -> list[JobRecord]: ...

    def job(self, job_id: str) -> JobRecord: ...

    def change(self, job_id: str, decide: Decision, release: Key | None = None) -> None: ...

    def events(self, job_id: str) -> list[Event]: ...

    def held(self) -> list[TaskRecord]:
        """Return the tasks of which processes may live: a lost one too, until its worker says that they are gone."""

    def schedule(self, now: float) -> None: ...

    def orders(self, worker_id: str) -> list[Order]: ...

    def workers(self) -> list[WorkerRecord]: ...

    def register(self, info: WorkerInfo, now: float) -> None: ...

    def set_state(self, worker_id: str, state: str) -> None: ...

    def heard(self, worker_id: str, now: float) -> None: ...

    def forget(self, worker_id: str) -> None: ...


class InMemory:
    """A plane's memory, which checks every step as it is written."""

    def __init__(self) -> None:
        self.meanwhile: Callable[[], None] | None = None
        self._jobs: dict[str, JobRecord] = {}
        self._events: dict[str, list[Event]] = {}
        self._held: dict[Key, TaskRecord] = {}
        self._workers: dict[str, WorkerRecord] = {}

    def reopen(self) -> None:
        self.meanwhile = None

    def add(self, record: JobRecord, now: float) -> None:
        step = transitions.submitted(record, now)
        self._jobs[record.id] = step.record.model_copy(update={"version": 1})
        self._events[record.id] = list(step.events)

    def jobs(self) -> list[JobRecord]:
        return list(self._jobs.values())

    def job(self, job_id: str) -> JobRecord:
        return self._jobs[job_id]

    def events(self, job_id: str) -> list[Event]:
        return self._events[job_id]

    def held(self) -> list[TaskRecord]:
        return list(self._held.values())

    def change(self, job_id: str, decide: Decision, release: Key | None = None) -> None:
        while True:
            old = self._jobs[job_id]
            step = decide(old)
            self._between()
            if self._jobs[job_id] is old:
                break
        self._write(old, step)
        if release is not None:
            self._held.pop(release, None)

    def _between(self) -> None:
        act, self.meanwhile = self.meanwhile, None
        if act is not None:
            act()

    def _write(self, old: JobRecord, step: Step) -> None:
        assert [event.seq for event in step.events] == list(range(old.events + 1, old.events + 1 + len(step.events)))
        assert step.record.events == old.events + len(step.events)
        if step.record == old:
            return
        assert not old.state.terminal
        self._jobs[old.id] = step.record.model_copy(update={"version": old.version + 1})
        self._events[old.id] += step.events
        for task in step.record.tasks:
            if not task.state.terminal or (task.state is TaskState.LOST and key_of(task) in self._held):
                self._held[key_of(task)] = task
            else:
                self._held.pop(key_of(task), None)

    def schedule(self, now: float) -> None:
        while True:
            looked = self._snapshot()
            queued = {record.id: record for record in looked.queued}
            made = placement.plan(looked, now)
            self._between()
            if looked == self._snapshot():
                break
        assert sorted(each.job_id for each in (*made.placements, *made.waiting)) == sorted(queued)
        for choice in made.placements:
            self._write(queued[choice.job_id], transitions.place(queued[choice.job_id], choice, looked.workers, now))
        for waiting in made.waiting:
            old = queued[waiting.job_id]
            refused = waiting.never and old.spec.on_unschedulable == "fail" and old.attempt == 0
            self._write(old, (transitions.refuse if refused else transitions.wait)(old, waiting, now))

    def _snapshot(self) -> Snapshot:
        queued = tuple(record for record in self._jobs.values() if record.state is JobState.QUEUED)
        return Snapshot(queued=queued, workers=tuple(self.workers()))

    def orders(self, worker_id: str) -> list[Order]:
        given = [order for record in self._jobs.values() for order in orders_for(record, worker_id)]
        lost = [task for task in self._held.values() if task.worker_id == worker_id and task.state is TaskState.LOST]
        return given + [order_of_lost(task, self._jobs[task.job_id].spec) for task in lost]

    def workers(self) -> list[WorkerRecord]:
        return [self._with_tasks(worker) for worker in self._workers.values()]

    def _with_tasks(self, worker: WorkerRecord) -> WorkerRecord:
        here = [task for task in self._held.values() if task.worker_id == worker.info.id]
        busy = tuple(key_of(task) for task in here)
        leased = tuple(device.uuid for task in here for device in task.devices)
        return worker.model_copy(update={"busy": busy, "leased": leased})

    def register(self, info: WorkerInfo, now: float) -> None:
        self._workers[info.id] = WorkerRecord(info=info, registered_at=now, heard_at=now)

    def set_state(self, worker_id: str, state: str) -> None:
        self._workers[worker_id] = self._workers[worker_id].model_copy(update={"state": state})

    def heard(self, worker_id: str, now: float) -> None:
        self._workers[worker_id] = self._workers[worker_id].model_copy(update={"heard_at": now})

    def forget(self, worker_id: str) -> None:
        del self._workers[worker_id]
