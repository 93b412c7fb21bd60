"""A task's processes from their start until none is left, and what they left is stored."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gpulayer.spec.records import Order, Stop
from gpulayer.spec.reports import TaskPhase, TaskRunning, TaskStill
from gpulayer.spec.states import Phase, Reason
from gpulayer.worker import clearing, evidence, orphans, processes
from gpulayer.worker.background import Background
from gpulayer.worker.exits import Watched
from gpulayer.worker.faults import Faults
from gpulayer.worker.gathering import Gathering
from gpulayer.worker.guarded import Guarded
from gpulayer.worker.layout import TaskFolders
from gpulayer.worker.lease import Lease
from gpulayer.worker.patience import PatientPlane
from gpulayer.worker.relay import Relay
from gpulayer.worker.reporter import Reporter
from gpulayer.worker.shipping import Shipping
from gpulayer.worker.stillness import Stillness
from gpulayer.worker.stragglers import Stragglers
from gpulayer.worker.torchrun import Launch
from gpulayer.worker.wishes import Wishes

_log = logging.getLogger(__name__)
_HEAR_OUT_S = 10.0
_UPLOAD_S = 600.0
_AT_ONCE_S = 0.2
"""What is stored sooner than this is no phase that a person could see."""


@dataclass(frozen=True)
class Result:
    """How the processes ended. ``well`` says that every rank said goodbye with 0."""

    exit_code: int | None
    well: bool
    failed_call: bool
    sentence: str = ""


class Running:
    """Runs one task that is through its gates, and follows its orders until the end."""

    def __init__(
        self,
        wishes: Wishes,
        where: TaskFolders,
        plane: PatientPlane,
        reporter: Reporter,
        faults: Faults,
        guard: Guarded,
        launch: Launch,
        lease: Lease | None,
    ) -> None:
        order = wishes.order
        self._wishes = wishes
        self._where = where
        self._plane = plane
        self._reporter = reporter
        self._faults = faults
        self._guard = guard
        self._launch = launch
        self._lease = lease
        self._gathered = Gathering(order, where, plane, reporter)
        self._background = Background("gpulayer-background", self._gathered.on_trouble)
        self._relay = Relay(order, where, plane, reporter, self._background, faults.add, self._died_with_agent)
        self._shipping = Shipping(plane, order, where)

    def update(self, order: Order) -> None:
        """Pass a newer order on to the ranks."""
        self._relay.update(order)

    def run(self) -> Result:
        """Start the processes, unless the task is to end, and see them to their end."""
        if self._wishes.start(self._begin, self._on_stop):
            self._reporter.send(TaskRunning)
            self._watch()
        if self._guard.expired and self._lease is not None:  # it looked at the clock before we did
            self._wishes.end(Stop(reason=Reason.WORKER_LOST, sentence=self._lease.broken))
        self._relay.finish(_HEAR_OUT_S)
        return self._conclude()

    def store(self, siblings: Callable[[], list[Path]]) -> list[str]:
        """Bring to safety what the processes left; returns sentences about what could not be.

        ``siblings`` returns the locks of the other tasks that may write into the same work folder.
        """
        self._background.do(lambda: self._gathered.store_last(siblings()))
        if not self._background.finish(_AT_ONCE_S):
            self._reporter.send(TaskPhase, phase=Phase.UPLOADING)
        troubles = [] if self._in_time(self._background.finish) else ["Its outputs could not be stored in time."]
        if not self._in_time(self._shipping.finish):
            troubles.append("Its last lines could not be sent.")
        return [*self._gathered.troubles, *troubles]

    def _begin(self) -> None:
        self._guard.start(self._launch, self._where.pipes, self._where.spool)

    def _on_stop(self, stop: Stop) -> None:
        self._faults.ending()
        self._guard.stop(stop.grace_s, kill=stop.kill)

    def _watch(self) -> None:
        """Follow orders until no process of the task is left."""
        spec = self._wishes.order.spec
        timeout_s = spec.timeout_s
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        behind, stillness = Stragglers(self._wishes.order.node_rank), Stillness()
        while not self._guard.over:
            order = self._wishes.order
            for call in self._gathered.due(order):
                self._background.do(partial(self._store_call, call))
            if deadline is not None and time.monotonic() >= deadline:
                sentence = f"It ran for longer than its timeout of {timeout_s:g} s."
                self._wishes.end(Stop(reason=Reason.TIMEOUT, sentence=sentence, grace_s=spec.grace_s))
                deadline = None
            found = behind.look(order, self._relay.pids(), time.monotonic())
            if found is not None and not self._faults.seen:
                self._faults.add(found)
            still = stillness.look(order.still_after_s, self._relay.pids(), time.monotonic())
            if still is not None:
                self._reporter.send(TaskStill, ranks=still)
            patience = [
                behind.due(order),
                stillness.due(order.still_after_s),
                None if deadline is None else max(0.0, deadline - time.monotonic()),
            ]
            self._wishes.wait(min((each for each in patience if each is not None), default=None))
        if self._guard.lost:
            clearing.kill_marked(self._where.root)
            if left := orphans.end():
                _log.error("the kernel does not end %s, which %s left", left, self._wishes.order.job_id)

    def _store_call(self, call: int) -> None:
        """Store what a call left; what it printed goes first, so that a caller who sees it settled has seen its lines."""
        if self._guard.flush(_HEAR_OUT_S):
            self._shipping.catch_up(_HEAR_OUT_S)
        self._gathered.store_call(call)

    def _in_time(self, finish: Callable[[float], bool]) -> bool:
        """Give something the time to upload; while the plane is away it does not count."""
        while not finish(_UPLOAD_S):
            if not self._plane.away:
                return False
        return True

    def _conclude(self) -> Result:
        guard, relay, launch, order = self._guard, self._relay, self._launch, self._wishes.order
        what = "The command" if launch.direct else "torchrun"
        met = launch.direct or bool(relay.ranks) or order.num_workers == 1
        told_by_calls = any(rank.failed_call for rank in relay.ranks.values())
        failed_call = any(rank.failed_call and not rank.broken_off for rank in relay.ranks.values())
        well = relay.all_left_well(len(launch.ranks) or 1)
        if guard.lost:
            self._faults.add(evidence.of_guard(order.node_rank))
        elif guard.exit_code is not None and not (well or told_by_calls or guard.told or self._faults.tell_the_cause):
            if launch.rank is not None:
                found = evidence.of_exit(order.node_rank, launch.rank, guard.exit_code, time.time())
            else:
                found = evidence.of_agent(order.node_rank, what, guard.exit_code, time.time(), met=met)
            if found is not None:
                self._faults.add(found.model_copy(update={"sentence": guard.sentence or found.sentence}))
        left = f"The kernel does not end {', '.join(guard.left)}; its devices stay leased." if guard.left else ""
        return Result(guard.exit_code, well, failed_call, left)

    def _died_with_agent(self, process: Watched) -> bool:
        """Say whether a rank died because torchrun's agent or the guard did: that is then the cause."""
        guard = self._guard
        if guard.agent_pid in (None, process.pid) or process.exit_code not in (None, -9):
            return False
        agent = processes.stat(guard.agent_pid or 0)
        if not guard.lost and agent is not None and agent.alive:
            return False
        if not guard.await_over(_HEAR_OUT_S):
            return False
        return guard.lost or (guard.exit_code or 0) < 0
