"""From an order to the moment at which all nodes may start: prepared, devices locked, a place to meet."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from gpulayer.errors import PreparationFailed
from gpulayer.spec.records import Order, RendezvousPoint
from gpulayer.spec.reports import RendezvousTaken, TaskReady, TaskWaits
from gpulayer.worker import locks, preflight, prepare
from gpulayer.worker.environments import Environment, Environments
from gpulayer.worker.guarded import Guarded
from gpulayer.worker.layout import TaskFolders
from gpulayer.worker.patience import PatientPlane
from gpulayer.worker.ports import Port, dial
from gpulayer.worker.preflight import Preflight
from gpulayer.worker.reporter import Reporter
from gpulayer.worker.wishes import Wishes

_DIAL_S = 15.0


class Gating:
    """Brings one task to its start; every step raises ``Stopped`` when the task is to end."""

    def __init__(
        self,
        wishes: Wishes,
        where: TaskFolders,
        plane: PatientPlane,
        reporter: Reporter,
        address: str,
        environments: Path,
    ) -> None:
        self._wishes = wishes
        self._environments = environments
        self._kept = ExitStack()
        self.environment: Environment | None = None
        self._where = where
        self._plane = plane
        self._reporter = reporter
        self._address = address
        self._preflight: Preflight | None = None
        self._port: Port | None = None

    def get_ready(self, guard: Guarded) -> None:
        """Prepare, have the guard hold the task's locks, and wait until all nodes are as far."""
        order = self._wishes.order
        guard.hold([self._where.lock, *_device_locks(order)])
        prepare.prepare(order, self._where, self._plane, lambda: self._wishes.stopped)
        if order.spec.requirements:
            made = Environments(self._environments, self._reporter.line, lambda: self._wishes.stopped)
            self.environment = self._kept.enter_context(made.of(order.spec.requirements, order.spec.env))
        told = None
        while not guard.held:
            if guard.waits_for not in (None, told):
                told = guard.waits_for
                self._reporter.send(TaskWaits, sentence=_waits_for(*told))
            self._wishes.pause()
            if guard.lost:
                raise PreparationFailed("The guard of the task did not come up.", next_step=f"See {self._where.guard_log}.")
        if preflight.needed(order):
            self._preflight = Preflight(order, self._address)
        self._reporter.send(TaskReady, preflight=self._preflight and self._preflight.point)
        while not self._wishes.order.launch:
            self._wishes.pause()

    def meet(self) -> RendezvousPoint | None:
        """Agree where torchrun's agents meet, and prove that every node gets there."""
        order, spec = self._wishes.order, self._wishes.order.spec
        if spec.kind != "distributed":
            return None
        if order.node_rank == 0:
            self._port = Port(self._address, spec.rendezvous.port)
            self._reporter.send(RendezvousTaken, point=self._port.point)
            self._reach_others(order)
            others = set(range(1, order.num_workers))
            self._port.meet(preflight.attempt_of(order), others, spec.rendezvous_timeout_s, lambda: self._wishes.stopped)
            self._port.quiet()
            point = self._port.point
        else:
            self._reach_others(order)
            while (found := self._wishes.order.rendezvous) is None:
                self._wishes.pause()
            point = found
            self._reach_node_0(order, point, min(spec.rendezvous_timeout_s, _DIAL_S))
        self._wishes.check()
        return point

    def _reach_others(self, order: Order) -> None:
        if self._preflight is not None and order.peers:
            self._preflight.dial(order.peers, lambda: self._wishes.stopped)

    def _reach_node_0(self, order: Order, point: RendezvousPoint, timeout_s: float) -> None:
        names = (f"Node {order.node_rank}", "node 0")
        if order.peers:
            names = (preflight.named(order.peers[order.node_rank]), preflight.named(order.peers[0]))
        name = preflight.attempt_of(order)
        dial(point, name, order.node_rank, timeout_s, lambda: self._wishes.stopped, names=names)

    def close(self) -> None:
        """Let ports and environment go, once the task has ended."""
        self._kept.close()
        if self._preflight is not None:
            self._preflight.close()
        if self._port is not None:
            self._port.close()


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
