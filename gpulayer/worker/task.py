"""One task from its first order to its last report: prepared, gated, started, watched, cleared up."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gpulayer.errors import PreparationFailed
from gpulayer.plane import Plane
from gpulayer.spec.causes import Evidence
from gpulayer.spec.records import Order, RendezvousPoint, Stop
from gpulayer.spec.reports import RendezvousTaken, TaskEnded, TaskFault, TaskPhase, TaskReady, TaskRunning, TaskWaits
from gpulayer.spec.states import Phase, Reason
from gpulayer.spec.workers import WorkerInfo
from gpulayer.worker import clearing, evidence, gathering, layout, locks, prepare, processes, stopping, torchrun
from gpulayer.worker.background import Background
from gpulayer.worker.exits import Watched
from gpulayer.worker.guarded import Guarded
from gpulayer.worker.ports import Port, Unreachable, dial
from gpulayer.worker.relay import Relay
from gpulayer.worker.reporter import Reporter
from gpulayer.worker.shipping import Shipping
from gpulayer.worker.stragglers import Stragglers

_log = logging.getLogger(__name__)
_DIAL_S = 15.0
_HEAR_OUT_S = 10.0
_UPLOAD_S = 600.0
_GRACE_S = 5.0
"""Nobody kills before this has passed since the first SIGTERM, except at once."""


@dataclass(frozen=True)
class Site:
    """What all tasks of a worker share. ``environ`` is what the host was started with."""

    plane: Plane
    home: Path
    me: WorkerInfo
    environ: Mapping[str, str]


class Stopped(Exception):
    """The task was told to end before it had started."""


class Task:
    """Drives one task in a thread of its own; ``update`` and ``abandon`` may be called from any other."""

    def __init__(self, order: Order, site: Site, on_end: Callable[[Task], None]) -> None:
        self.order = order
        self._site = site
        self._on_end = on_end
        self._where = layout.folders(site.home, order)
        self._reporter = Reporter(site.plane, site.me.id, site.me.incarnation, order)
        self._lock = threading.Lock()
        self._woken = threading.Event()
        self._stop: Stop | None = order.stop
        self._evidence: list[Evidence] = []
        self._guard: Guarded | None = None
        self._relay: Relay | None = None
        self._port: Port | None = None
        self._started = False
        self._keeps_folders = False
        self._end: stopping.Ending | None = None
        self._ending_since: float | None = None
        self._thread = threading.Thread(target=self._run, name=f"gpulayer-{order.job_id}.{order.node_rank}", daemon=True)
        self._thread.start()

    # --- told from outside -------------------------------------------------------------------------------------------

    def update(self, order: Order) -> None:
        """Take the newest order."""
        self.order = order
        if order.stop is not None:
            self.stop(order.stop)
        if self._relay is not None:
            self._relay.update(order)
        self._wake()

    def stop(self, stop: Stop) -> None:
        """End the task; the first reason stays, a later stop may only be harder."""
        with self._lock:
            harder = self._stop is None or (stop.kill and not self._stop.kill) or stop.grace_s < self._stop.grace_s
            if self._stop is None:
                self._stop = stop
            elif harder:
                self._stop = self._stop.model_copy(update={"kill": stop.kill or self._stop.kill, "grace_s": stop.grace_s})
            if harder and self._started and self._guard is not None:
                self._ending_since = self._ending_since or time.monotonic()
                self._guard.stop(stop.grace_s, kill=stop.kill)
        self._wake()

    def abandon(self) -> None:
        """The plane gave the task up: nobody waits for it any more."""
        self.stop(Stop(reason=Reason.WORKER_LOST, sentence="The plane gave this task up.", kill=True))

    def tell_end(self) -> None:
        """Report how it ended; to be repeated when the plane still asks for the task."""
        end = self._end
        if end is not None:
            facts = {"state": end.state, "reason": end.reason, "exit_code": end.exit_code, "sentence": end.sentence}
            self._reporter.send(TaskEnded, **facts)

    # --- the life ----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._end = self._live()
            self.tell_end()
            if not self._keeps_folders:
                clearing.clear(self.order, self._where, self._siblings())
        except Exception as trouble:
            _log.exception("task %s.%s broke", self.order.job_id, self.order.node_rank)
            self._report_trouble(trouble)
        finally:
            self._on_end(self)

    def _live(self) -> stopping.Ending:
        self._where.make()
        self._guard = Guarded(self._where.guard_log, self._wake)
        try:
            self._get_ready(self._guard)
            launch = torchrun.launch(
                self.order, self._where, self._site.environ, self._site.me.name, self._site.me.capabilities, self._meet()
            )
            return self._run_through(self._guard, launch)
        except Stopped:
            return self._ending(exit_code=None)
        except PreparationFailed as failure:
            return self._ending_of(Evidence(kind="preparation", node_rank=self.order.node_rank, sentence=str(failure)))
        except Unreachable as failure:
            return self._ending_of(Evidence(kind="rendezvous", node_rank=self.order.node_rank, sentence=str(failure)))
        finally:
            self._guard.close()
            if self._port is not None:
                self._port.close()

    def _get_ready(self, guard: Guarded) -> None:
        guard.hold([self._where.lock, *_device_locks(self.order)])
        prepare.prepare(self.order, self._where, self._site.plane, lambda: self._stop is not None)
        told = None
        while not guard.held:
            if guard.waits_for not in (None, told):
                told = guard.waits_for
                self._reporter.send(TaskWaits, sentence=_waits_for(*told))
            self._pause()
            if guard.lost:
                raise PreparationFailed("The guard of the task did not come up.", next_step=f"See {self._where.guard_log}.")
        self._reporter.send(TaskReady)
        while not self.order.launch:
            self._pause()

    def _meet(self) -> RendezvousPoint | None:
        """Agree where torchrun's agents meet, and prove that every node gets there."""
        spec = self.order.spec
        if spec.kind != "distributed":
            return None
        name, patience = f"{self.order.job_id}.{self.order.attempt}", spec.rendezvous_timeout_s
        if self.order.node_rank == 0:
            self._port = Port(self._site.me.capabilities.advertise_address or "127.0.0.1", spec.rendezvous.port)
            self._reporter.send(RendezvousTaken, point=self._port.point)
            self._port.meet(name, set(range(1, self.order.num_workers)), patience, self._is_stopped)
            self._port.quiet()
            point = self._port.point
        else:
            while self.order.rendezvous is None:
                self._pause()
            point = self.order.rendezvous
            dial(point, name, self.order.node_rank, min(patience, _DIAL_S), self._is_stopped)
        self._check_stopped()
        return point

    def _run_through(self, guard: Guarded, launch: torchrun.Launch) -> stopping.Ending:
        gathered = gathering.Gathering(self.order, self._where, self._site.plane, self._reporter)
        background = Background("gpulayer-background", gathered.on_trouble)
        relay = Relay(
            self.order, self._where, self._site.plane, self._reporter, background, self._on_fault, self._died_with_agent
        )
        self._relay = relay
        relay.update(self.order)  # one that came while it was made
        shipping = Shipping(self._site.plane, self.order, self._where)
        with self._lock:
            if self._stop is None:
                guard.start(launch, self._where.pipes, self._where.spool)
                self._started = True
        if self._started:
            self._reporter.send(TaskRunning)
            self._watch(guard, shipping, background, gathered)
        relay.finish(_HEAR_OUT_S)
        self._reporter.send(TaskPhase, phase=Phase.UPLOADING)
        background.do(partial(gathered.store_last, self._siblings()))
        troubles = [] if background.finish(_UPLOAD_S) else ["Its outputs could not be stored in time."]
        if not shipping.finish(_UPLOAD_S):
            troubles.append("Its last lines could not be sent.")
        troubles = [*gathered.troubles, *troubles]
        if troubles:
            self._keeps_folders = True
            troubles.append(f"They stay in {self._where.work} and {self._where.spool}.")
        return self._conclude(guard, relay, launch, " ".join(troubles))

    def _watch(self, guard: Guarded, shipping: Shipping, background: Background, gathered: gathering.Gathering) -> None:
        """Follow orders until no process of the task is left."""
        timeout_s = self.order.spec.timeout_s
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        behind = Stragglers(self.order.node_rank)
        while not guard.over:
            for call in gathered.due(self.order):
                background.do(partial(self._store_call, call, guard, shipping, gathered))
            if deadline is not None and time.monotonic() >= deadline:
                sentence = f"It ran for longer than its timeout of {timeout_s:g} s."
                self.stop(Stop(reason=Reason.TIMEOUT, sentence=sentence, grace_s=self.order.spec.grace_s))
                deadline = None
            found = behind.look(self.order, {} if self._relay is None else self._relay.pids(), time.monotonic())
            if found is not None and not self._evidence:
                self._on_fault(found)
            patience = [behind.due(self.order), None if deadline is None else max(0.0, deadline - time.monotonic())]
            self._woken.wait(min((each for each in patience if each is not None), default=None))
            self._woken.clear()
        if guard.lost:
            clearing.kill_marked(self._where.root)

    def _store_call(self, call: int, guard: Guarded, shipping: Shipping, gathered: gathering.Gathering) -> None:
        """Store what a call left; what it printed goes first, so that a caller who sees it settled has seen its lines."""
        if guard.flush(_HEAR_OUT_S):
            shipping.catch_up(_HEAR_OUT_S)
        gathered.store_call(call)

    def _conclude(self, guard: Guarded, relay: Relay, launch: torchrun.Launch, sentence: str) -> stopping.Ending:
        what = "torchrun" if not launch.direct else "The command"
        met = launch.direct or bool(relay.ranks) or self.order.num_workers == 1
        failed_call = any(rank.failed_call for rank in relay.ranks.values())
        well = relay.all_left_well(len(launch.ranks) or 1)
        if guard.lost:
            self._on_fault(evidence.of_guard(self.order.node_rank))
        elif guard.exit_code is not None and not (well or failed_call or guard.told or self._knows_the_cause):
            if launch.rank is not None:
                found = evidence.of_exit(self.order.node_rank, launch.rank, guard.exit_code, time.time())
            else:
                found = evidence.of_agent(self.order.node_rank, what, guard.exit_code, time.time(), met=met)
            if found is not None:
                self._on_fault(found.model_copy(update={"sentence": guard.sentence or found.sentence}))
        if guard.left:
            sentence = f"{sentence} The kernel does not end {', '.join(guard.left)}; its devices stay leased.".strip()
        return self._ending(guard.exit_code, well=well, failed_call=failed_call, sentence=sentence)

    # --- what was seen -----------------------------------------------------------------------------------------------

    def _on_fault(self, found: Evidence) -> None:
        with self._lock:
            ended = self._ending_since
            killed = ended is not None and (time.monotonic() - ended >= _GRACE_S or bool(self._stop and self._stop.kill))
            if evidence.is_echo(found, terminated=ended is not None, killed=killed):
                return
            self._evidence.append(found)
            self._ending_since = ended or time.monotonic()
        self._reporter.send(TaskFault, evidence=found)

    @property
    def _knows_the_cause(self) -> bool:
        return any(found.kind != "communication" for found in self._evidence)

    def _died_with_agent(self, process: Watched) -> bool:
        """Say whether a rank died because torchrun's agent or the guard did: that is then the cause."""
        guard = self._guard
        if guard is None or guard.agent_pid in (None, process.pid) or process.exit_code not in (None, -9):
            return False
        agent = processes.stat(guard.agent_pid or 0)
        if not guard.lost and agent is not None and agent.alive:
            return False
        if not guard.await_over(_HEAR_OUT_S):
            return False
        return guard.lost or (guard.exit_code or 0) < 0

    # --- the end -----------------------------------------------------------------------------------------------------

    def _ending(
        self, exit_code: int | None, *, well: bool = False, failed_call: bool = False, sentence: str = ""
    ) -> stopping.Ending:
        return stopping.of_task(
            stop=self._stop,
            evidence=tuple(self._evidence),
            exit_code=exit_code,
            well=well,
            failed_call=failed_call,
            sentence=sentence,
        )

    def _ending_of(self, found: Evidence) -> stopping.Ending:
        self._on_fault(found)
        return self._ending(exit_code=None)

    def _report_trouble(self, trouble: Exception) -> None:
        found = Evidence(kind="exit", node_rank=self.order.node_rank, sentence=f"{type(trouble).__name__}: {trouble}")
        self._evidence.append(found)
        self._end = self._end or self._ending(exit_code=None)
        with suppress(Exception):  # the agent tells it again as long as the plane asks
            self.tell_end()

    # --- waiting -----------------------------------------------------------------------------------------------------

    def _pause(self) -> None:
        """Wait for news; raises ``Stopped`` once the task is to end."""
        self._check_stopped()
        self._woken.wait()
        self._woken.clear()
        self._check_stopped()

    def _check_stopped(self) -> None:
        if self._is_stopped():
            raise Stopped

    def _is_stopped(self) -> bool:
        return self._stop is not None

    def _wake(self) -> None:
        self._woken.set()

    def _siblings(self) -> list[Path]:
        return [path for path in layout.locks_of_attempt(self._site.home, self.order) if path != self._where.lock]


def _device_locks(order: Order) -> list[Path]:
    cuda = [device for device in order.devices if device.kind == "cuda"]
    if not cuda:
        return []
    folder = locks.device_folder()
    locks.make_private(folder)
    return [folder / device.uuid for device in cuda]


def _waits_for(path: str, pid: int) -> str:
    name = Path(path).name
    what = "its own lock" if name.startswith("task-") else f"device {name}"
    return f"waits for {what}, which process {pid} holds" if pid else f"waits for {what}"
