"""Workers without processes: they follow their orders, and their reports travel as letters that may come late or twice."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gpulayer.spec.calls import CallView
from gpulayer.spec.records import Order
from gpulayer.spec.reports import (
    CallStored,
    RankArrived,
    RankOutcome,
    RankPassed,
    RendezvousTaken,
    Report,
    TaskEnded,
    TaskPhase,
    TaskReady,
    TaskRunning,
)
from gpulayer.spec.states import Phase, Reason, TaskState
from gpulayer.spec.workers import WorkerInfo
from tests.control.engine import given
from tests.control.engine.keeping import Key

LEASE_S = 90.0


@dataclass
class Task:
    """A task at its worker. ``hangs`` says that nothing is done about it, whatever is ordered."""

    order: Order
    ready: bool = False
    met: bool = False
    started: bool = False
    uploading: bool = False
    hangs: bool = False
    ending: dict[str, Any] | None = None
    told: set[tuple[str, int, int]] = field(default_factory=set)
    """What its ranks have said: of which call, by which rank."""


@dataclass
class Worker:
    """A worker process and what is on its disk. ``heard_at`` is when the plane last answered it."""

    info: WorkerInfo
    alive: bool = True
    cut: bool = False
    heard_at: float = 0.0
    tasks: dict[Key, Task] = field(default_factory=dict)
    folders: set[Key] = field(default_factory=set)
    letters: list[Report] = field(default_factory=list)

    @property
    def reachable(self) -> bool:
        return self.alive and not self.cut

    def obey(self, orders: list[Order], now: float) -> None:
        """Take all orders: what isn't among them, the plane has given up."""
        self.heard_at = now
        wanted = {(order.job_id, order.attempt, order.node_rank): order for order in orders}
        for key, order in wanted.items():
            if key in self.tasks:
                self.tasks[key].order = order
            elif key in self.folders:  # another incarnation had begun it
                self._write(order, TaskEnded, state=TaskState.LOST, reason=Reason.WORKER_LOST)
            else:
                self.folders.add(key)
                self.tasks[key] = Task(order)
        self.abandon([key for key in self.tasks if key not in wanted])

    def abandon(self, keys: list[Key]) -> None:
        """End tasks that nobody waits for."""
        for key in keys:
            if not self.tasks[key].hangs:
                self._end(key, state=TaskState.CANCELLED, reason=Reason.WORKER_LOST)

    def look_at_lease(self, now: float) -> None:
        """A worker that could not ask for a lease ends its tasks by itself."""
        if self.alive and now - self.heard_at >= LEASE_S:
            self.abandon(list(self.tasks))

    def crash(self) -> None:
        """The process dies, and its guards with it; letters that it had sent may still arrive."""
        self.alive = False
        self.tasks.clear()

    def restart(self, incarnation: str) -> None:
        self.alive, self.cut = True, False
        self.info = self.info.model_copy(update={"incarnation": incarnation})

    def fail(self, key: Key, report: type[Report], **fields: Any) -> None:  # type: ignore[valid-type]
        """Send a report that no order asks for."""
        task = self.tasks[key]
        if report is TaskEnded:
            self._end(key, **fields)
        else:
            self._write(task.order, report, **fields)

    def act(self, key: Key) -> None:
        """Do the next thing that the order asks for."""
        task = self.tasks[key]
        order = task.order
        if task.hangs:
            return
        if order.stop is not None and task.ending is None:
            state = TaskState.TIMED_OUT if order.stop.reason is Reason.TIMEOUT else TaskState.CANCELLED
            task.ending = {"state": state, "reason": order.stop.reason}
        if task.ending is not None:
            if task.started and not task.uploading:
                task.uploading = True
                self._write(order, TaskPhase, phase=Phase.UPLOADING)
            else:
                self._end(key, **task.ending)
        elif not task.ready:
            task.ready = True
            self._write(order, TaskReady)
        elif order.launch and not task.started:
            self._start(task)
        elif task.started:
            if order.spec.calls is None:
                task.ending = {"state": TaskState.SUCCEEDED, "reason": Reason.DONE}
            else:
                self._advance_calls(task)

    def _start(self, task: Task) -> None:
        order = task.order
        if order.num_workers > 1 and order.rendezvous is None:
            if order.node_rank == 0 and not task.met:
                task.met = True
                self._write(order, RendezvousTaken, point=given.POINT)
            return
        task.started = True
        self._write(order, TaskRunning)
        for rank in range(order.node_rank * order.procs_per_worker, (order.node_rank + 1) * order.procs_per_worker):
            self._write(order, RankPassed, rank=rank, milestone="started")

    def _advance_calls(self, task: Task) -> None:
        order = task.order
        view = next((view for view in reversed(order.calls) if view.go), CallView(call=0))
        if order.caller_ended and (view.settled or not view.begun):
            if not self._each_rank(task, "left", view.call + 1, self._leave):
                task.ending = {"state": TaskState.SUCCEEDED, "reason": Reason.DONE}
            return
        if view.settled or self._each_rank(task, "arrived", view.call, self._arrive):
            return
        if view.begun and not self._each_rank(task, "recorded", view.call, self._record):
            world = order.num_workers * order.procs_per_worker
            stored = ("stored", view.call, order.node_rank)
            if len(view.outcomes) == world and stored not in task.told:
                task.told.add(stored)
                manifest = given.manifest(order.job_id, order.attempt, order.node_rank, view.call)
                self._write(order, CallStored, call=view.call, manifest=manifest)

    def _each_rank(self, task: Task, what: str, call: int, tell: Any) -> bool:
        """Let the next rank that has not said so say it; False when all have."""
        procs = task.order.procs_per_worker
        for rank in range(task.order.node_rank * procs, (task.order.node_rank + 1) * procs):
            if (what, call, rank) not in task.told:
                task.told.add((what, call, rank))
                tell(task.order, call, rank)
                return True
        return False

    def _arrive(self, order: Order, call: int, rank: int) -> None:
        self._write(order, RankArrived, arrival=given.arrival(rank, call))

    def _record(self, order: Order, call: int, rank: int) -> None:
        self._write(order, RankOutcome, outcome=given.outcome(rank, call))

    def _leave(self, order: Order, calls: int, rank: int) -> None:
        self._write(order, RankArrived, arrival=given.arrival(rank, calls, left=True))

    def _end(self, key: Key, **fields: Any) -> None:
        self._write(self.tasks.pop(key).order, TaskEnded, **fields)

    def _write(self, order: Order, report: Any, **fields: Any) -> None:
        who = {"worker_id": self.info.id, "incarnation": self.info.incarnation}
        task = {"job_id": order.job_id, "attempt": order.attempt, "node_rank": order.node_rank}
        self.letters.append(report(**who, **task, **fields))
