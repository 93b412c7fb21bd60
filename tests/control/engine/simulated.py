"""A plane and its workers without I/O: what the store would keep, and workers that follow their orders."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpulayer.control.engine import lockstep, placement, transitions
from gpulayer.control.engine.moves import Step
from gpulayer.control.engine.orders import orders_for
from gpulayer.spec.calls import CallView, Go
from gpulayer.spec.events import Event
from gpulayer.spec.records import JobRecord, Order, Snapshot, Stop, TaskRecord, WorkerRecord
from gpulayer.spec.reports import RendezvousTaken, Report
from gpulayer.spec.states import JobState, Reason, TaskState
from tests.control.engine import given

Key = tuple[str, int, int]
"""A task: job, attempt, node rank."""


@dataclass
class Task:
    """What a worker knows of a task that it has. ``left`` holds the ranks that ended."""

    record: TaskRecord
    worker: str
    machine: str
    ready: bool = False
    started: bool = False
    left: set[int] = field(default_factory=set)


@dataclass
class Plane:
    """Jobs, workers and what each task holds. Every step is checked as it is written."""

    workers: dict[str, WorkerRecord]
    now: float = 0.0
    jobs: dict[str, JobRecord] = field(default_factory=dict)
    events: dict[str, list[Event]] = field(default_factory=dict)
    holds: dict[Key, Task] = field(default_factory=dict)
    """Every task whose processes may live: a lost one too, until its worker says that they are gone."""
    away: set[str] = field(default_factory=set)
    heard: list[Report] = field(default_factory=list)

    # --- what the plane does -------------------------------------------------------------------------------------

    def submit(self, job: JobRecord) -> None:
        self.jobs[job.id] = job
        self.events[job.id] = []
        self.write(job, transitions.submitted(job, self.now))

    def write(self, old: JobRecord, step: Step) -> None:
        """Write a step as the store would, and check that it is one that may be written."""
        assert old is self.jobs[old.id]
        assert [event.seq for event in step.events] == list(range(old.events + 1, old.events + 1 + len(step.events)))
        assert step.record.events == old.events + len(step.events)
        if old.state.terminal:
            assert step == Step(old)
        self.jobs[old.id] = step.record
        self.events[old.id] += step.events
        for task in step.record.tasks:
            if task.state.terminal and task.state is not TaskState.LOST:
                self.holds.pop((task.job_id, task.attempt, task.node_rank), None)

    def schedule(self) -> None:
        snapshot = self.snapshot()
        queued = {record.id: record for record in snapshot.queued}
        made = placement.plan(snapshot, self.now)
        answered = [each.job_id for each in made.placements] + [each.job_id for each in made.waiting]
        assert sorted(answered) == sorted(queued)
        for choice in made.placements:
            self.write(queued[choice.job_id], transitions.place(queued[choice.job_id], choice, snapshot.workers, self.now))
            for task in self.jobs[choice.job_id].tasks:
                key = (task.job_id, task.attempt, task.node_rank)
                self.holds[key] = Task(task, task.worker_id, task.machine)
        for waiting in made.waiting:
            old = queued[waiting.job_id]
            refused = waiting.never and old.spec.on_unschedulable == "fail" and old.attempt == 0
            decide = transitions.refuse if refused else transitions.wait
            self.write(old, decide(old, waiting, self.now))

    def snapshot(self) -> Snapshot:
        queued = tuple(record for record in self.jobs.values() if record.state is JobState.QUEUED)
        return Snapshot(queued=queued, workers=tuple(map(self._seen, self.workers)))

    def _seen(self, worker_id: str) -> WorkerRecord:
        held = {key: task for key, task in self.holds.items() if task.worker == worker_id}
        leased = tuple(device.uuid for task in held.values() for device in task.record.devices)
        state = "lost" if worker_id in self.away else "online"
        return self.workers[worker_id].model_copy(update={"state": state, "busy": tuple(held), "leased": leased})

    def tell(self, report: Report) -> None:
        """Hear a report; hearing it once more must change nothing."""
        self.heard.append(report)
        self.hear(report)

    def hear(self, report: Report) -> None:
        old = self.jobs[report.job_id]
        self.write(old, transitions.advance(old, report, self.now))
        once = self.jobs[report.job_id]
        assert transitions.advance(once, report, self.now + 1.0) == Step(once)

    def tick(self) -> None:
        for old in list(self.jobs.values()):
            step = transitions.tick(old, self.now)
            self.write(old, step)
            at = transitions.next_deadline(step.record)
            assert at is None or at > self.now

    def lose(self, worker_id: str, reason: Reason = Reason.WORKER_LOST) -> None:
        """The worker is heard from no more; its processes may live on."""
        self.away.add(worker_id)
        for old in list(self.jobs.values()):
            nodes = [task.node_rank for task in old.tasks if task.worker_id == worker_id]
            self.write(old, transitions.lose_tasks(old, nodes, reason, self.now))

    def come_back(self, worker_id: str) -> None:
        """The worker is there again, and says of its lost tasks that no process is left."""
        self.away.discard(worker_id)
        for key, task in list(self.holds.items()):
            if task.worker == worker_id and not self._live(key):
                del self.holds[key]

    def stop(self, job_id: str, reason: Reason, *, kill: bool = False) -> None:
        old = self.jobs[job_id]
        self.write(old, transitions.request_stop(old, Stop(reason=reason, grace_s=30.0, kill=kill), self.now))

    def let_go(self, job_id: str) -> None:
        """The caller makes its next call, once the one before has settled."""
        old = self.jobs[job_id]
        made = [view for view in old.calls if view.go]
        if all(view.settled for view in made):
            go = Go(fingerprint=given.fingerprint(len(made)), state_digest="d" if len(made) % 2 else "")
            self.write(old, lockstep.go(old, go, self.now))

    def send_state(self, job_id: str) -> None:
        old = self.jobs[job_id]
        for call in [view.call for view in old.calls if view.needs_state]:
            self.write(old, lockstep.send_state(old, call, given.BLOB, self.now))

    def farewell(self, job_id: str) -> None:
        old = self.jobs[job_id]
        self.write(old, lockstep.farewell(old, self.now))

    def _live(self, key: Key) -> bool:
        job, attempt, node = key
        record = self.jobs[job]
        return record.attempt == attempt and node < len(record.tasks) and not record.tasks[node].state.terminal

    # --- what the workers do -------------------------------------------------------------------------------------

    def active(self) -> list[Key]:
        """Return the tasks whose workers are there and have orders for them."""
        return [key for key, task in self.holds.items() if task.worker not in self.away and self._live(key)]

    def work(self, key: Key) -> None:
        """Let a worker do the next thing that its order asks for."""
        record, task = self.jobs[key[0]], self.holds[key]
        (order,) = (each for each in orders_for(record, task.worker) if each.node_rank == key[2])
        report = self._next(record, order, task)
        if report is not None:
            self.tell(report)

    def _next(self, record: JobRecord, order: Order, task: Task) -> Report | None:
        node = order.node_rank
        if order.stop is not None:
            timed_out = order.stop.reason is Reason.TIMEOUT
            state = TaskState.TIMED_OUT if timed_out else TaskState.CANCELLED
            return given.ended(record, node, state, order.stop.reason)
        if not task.ready:
            task.ready = True
            return given.ready(record, node)
        if not order.launch:
            return None
        if not task.started:
            if node == 0 and order.num_workers > 1 and order.rendezvous is None:
                return RendezvousTaken(**given.of(record, 0), point=given.POINT)
            task.started = True
            return given.started(record, node)
        if record.spec.calls is None:
            return given.ended(record, node)
        return self._next_of_calls(record, order, task)

    def _next_of_calls(self, record: JobRecord, order: Order, task: Task) -> Report | None:
        node, procs = order.node_rank, order.procs_per_worker
        ranks = range(node * procs, (node + 1) * procs)
        view = next((view for view in reversed(order.calls) if view.go), CallView(call=0))
        if view.settled or (order.caller_ended and not view.begun):
            if not order.caller_ended:
                return None
            for rank in ranks:
                if rank not in task.left:
                    task.left.add(rank)
                    return given.leaves(record, rank, view.call + 1)
            return given.ended(record, node)
        for rank in ranks:
            if not any(each.rank == rank and each.fingerprint for each in view.arrivals):
                return given.arrives(record, rank, view.call)
            if view.begun and not any(each.rank == rank for each in view.outcomes):
                return given.records(record, rank, view.call)
        if len(view.outcomes) == record.world_size and node not in view.stored:
            return given.stores(record, node, view.call)
        return None
