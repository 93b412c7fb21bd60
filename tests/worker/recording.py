"""A plane in memory for one job: it gates, places and stops by hand or by the simplest rules, and records what it hears."""

from __future__ import annotations

import hashlib
import io
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from gpulayer.errors import PlaneUnreachable, SecretNotFound, WorkerNotFound
from gpulayer.spec.base import new_id
from gpulayer.spec.calls import Arrival, CallView, Go, Outcome
from gpulayer.spec.files import Blob
from gpulayer.spec.job import CommandJob, DistributedJob, FunctionJob, shape
from gpulayer.spec.logs import LogLine
from gpulayer.spec.records import JobRecord, Order, Orders, Peer, RendezvousPoint, Stop, WorkerRecord
from gpulayer.spec.reports import (
    CallStored,
    RankArrived,
    RankOutcome,
    RendezvousTaken,
    TaskEnded,
    TaskFault,
    TaskReady,
    TaskRunning,
)
from gpulayer.spec.states import Reason
from gpulayer.spec.workers import Device, WorkerInfo

Spec = CommandJob | FunctionJob | DistributedJob
DEADLINE_S = 60.0


class RecordingPlane:
    """Gives each registered worker one node of ``job``; a fault or a bad end stops the others, as the real plane does."""

    def __init__(self, spec: Spec, *, devices: Sequence[tuple[Device, ...]] = (), fail_fast: bool = True) -> None:
        self.spec = spec
        self.job_id = new_id("job")
        self.reports: list[Any] = []
        self.kept_lines: list[LogLine] = []
        self.blobs: dict[str, bytes] = {}
        self.secrets: dict[str, str] = {}
        self.views: dict[int, CallView] = {}
        self.point: RendezvousPoint | None = None
        self.wish: Stop | None = None
        self.caller_ended = False
        self.closed = False
        self.away = False
        self.swallowing = False
        """Whether the answer to a question that waits stays away until this is over."""
        self.refused = 0
        self.asked_beside = 0
        self.launched = False
        self.lease_s = 90.0
        self._devices = devices
        self._fail_fast = fail_fast
        self._workers: list[str] = []
        self._version = 1
        self._changed = threading.Condition()

    # --- for tests -------------------------------------------------------------------------------------------------

    def of(self, kind: type) -> list[Any]:
        """Return the reports of a kind so far."""
        with self._changed:
            return [report for report in self.reports if isinstance(report, kind)]

    def wait_for(self, condition: Callable[[], Any], within_s: float = DEADLINE_S) -> Any:
        """Wait until a condition on what was heard holds, and return its value."""
        deadline = time.monotonic() + within_s
        with self._changed:
            while not (value := condition()):
                if not self._changed.wait(min(1.0, deadline - time.monotonic())) and time.monotonic() > deadline:
                    raise AssertionError(f"not within {within_s} s; heard: {self.reports[-5:]}, {self.text()[-2000:]}")
            return value

    def wait_ended(self, within_s: float = DEADLINE_S) -> list[TaskEnded]:
        """Wait for the last word of every node and return them by node."""
        count = shape(self.spec)[0]
        self.wait_for(lambda: len(self._ends()) == count, within_s)
        return [ended for _, ended in sorted(self._ends().items())]

    def text(self, rank: int | None = None, stream: str | None = None) -> str:
        """Return the lines of a rank and stream as they were printed."""
        wanted = [line for line in self.kept_lines if (stream is None or line.stream == stream)]
        return "".join(line.text + "\n" for line in wanted if rank is None or line.rank == rank)

    def change(self, **values: Any) -> None:
        """Set attributes and tell the workers."""
        with self._changed:
            for name, value in values.items():
                setattr(self, name, value)
            self._touch()

    def forget_workers(self) -> None:
        """Know no worker any more, as a plane that was set up anew."""
        with self._changed:
            self._workers.clear()
            self._touch()

    def stop(self, reason: Reason = Reason.CANCELLED_BY_USER, grace_s: float = 5.0, kill: bool = False) -> None:
        self.change(wish=Stop(reason=reason, grace_s=grace_s, kill=kill))

    def go(self, go: Go) -> None:
        with self._changed:
            self.views[go.call] = self._view(go.call).model_copy(update={"go": go})
            self._judge(go.call)
            self._touch()

    # --- for workers -----------------------------------------------------------------------------------------------

    def close(self) -> None:
        self.change(closed=True)

    def register(self, info: WorkerInfo) -> WorkerRecord:
        with self._changed:
            self._be_there()
            self._workers.append(info.id)
            self._touch()
        return WorkerRecord(info=info)

    def unregister(self, worker_id: str) -> None:
        return None

    def orders(self, worker_id: str, *, seen: int = 0, timeout_s: float = 0.0) -> Orders:
        with self._changed:
            if timeout_s:
                self._changed.wait_for(lambda: self._version != seen or self.closed or self.away, timeout_s)
                self._changed.wait_for(lambda: not self.swallowing or self.closed)
            elif self.swallowing:
                self.asked_beside += 1
                self._changed.notify_all()
            if self.closed:
                raise RuntimeError("closed")
            self._be_there()
            if worker_id not in self._workers:
                raise WorkerNotFound("It is not known.")
            given = self._orders(self._workers.index(worker_id))
            return Orders(version=self._version, orders=given, lease_s=self.lease_s)

    def report(self, report: Any) -> None:
        with self._changed:
            self._be_there()
            self.reports.append(report)
            match report:
                case RendezvousTaken():
                    self.point = report.point
                case TaskFault() | TaskEnded() if self._fail_fast and self.wish is None:
                    if isinstance(report, TaskFault) or report.state != "succeeded":
                        self.wish = Stop(reason=Reason.PEER_FAILED, grace_s=5.0)
                case RankArrived():
                    self._arrived(report.arrival)
                case RankOutcome():
                    self._recorded(report.outcome)
                case CallStored():
                    self._stored(report.call)
            self._touch()

    def append_lines(self, job_id: str, lines: Sequence[LogLine]) -> None:
        with self._changed:
            self._be_there()
            self.kept_lines += lines
            self._changed.notify_all()

    def log_marks(self, job_id: str, attempt: int, node_rank: int) -> dict[str, int]:
        return {}

    def secrets_of(self, job_id: str) -> dict[str, str]:
        if missing := set(self.spec.secrets) - set(self.secrets):
            raise SecretNotFound(f"There is no secret {missing.pop()}.")
        return {name: self.secrets[name] for name in self.spec.secrets}

    def put_blob(self, source: Path | bytes) -> Blob:
        with self._changed:
            self._be_there()
        data = source if isinstance(source, bytes) else source.read_bytes()
        name = hashlib.sha256(data).hexdigest()
        self.blobs[name] = data
        return Blob(sha256=name, size=len(data))

    def open_blob(self, sha256: str) -> BinaryIO:
        return io.BytesIO(self.blobs[sha256])

    def fetch_blob(self, sha256: str, to: Path) -> None:
        with self._changed:
            self._be_there()
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(self.blobs[sha256])

    def jobs(self, *, limit: int = 100) -> list[JobRecord]:
        return []

    def _be_there(self) -> None:
        if self.away:
            self.refused += 1
            self._changed.notify_all()
            raise PlaneUnreachable("It is away.")

    def _ends(self) -> dict[int, TaskEnded]:
        return {each.node_rank: each for each in self.reports if isinstance(each, TaskEnded)}

    # --- the simplest rules ----------------------------------------------------------------------------------------

    def _touch(self) -> None:
        self._version += 1
        self._changed.notify_all()

    def _orders(self, node_rank: int) -> tuple[Order, ...]:
        nodes, procs = shape(self.spec)
        if node_rank >= nodes or node_rank in self._ends():
            return ()
        answering = {each.node_rank: each.preflight for each in self.reports if isinstance(each, TaskReady)}
        ready = len(answering) == nodes
        peers = [Peer(node_rank=at, worker_name=f"w{at}", preflight=answering.get(at)) for at in range(nodes)]
        running = any(isinstance(each, TaskRunning) and each.node_rank == node_rank for each in self.reports)
        order = Order(
            job_id=self.job_id,
            attempt=1,
            node_rank=node_rank,
            spec=self.spec,
            procs_per_worker=procs,
            num_workers=nodes,
            devices=self._devices[node_rank] if self._devices else (),
            launch=self.launched or running or (ready and self.wish is None and (node_rank == 0 or self.point is not None)),
            rendezvous=self.point,
            peers=tuple(peers) if ready else (),
            stop=self.wish,
            calls=tuple(self.views.values()),
            caller_ended=self.caller_ended,
        )
        return (order,)

    def _view(self, call: int) -> CallView:
        return self.views.get(call, CallView(call=call))

    def _world(self) -> int:
        nodes, procs = shape(self.spec)
        return nodes * procs

    def _arrived(self, arrival: Arrival) -> None:
        view = self._view(arrival.call)
        self.views[arrival.call] = view.model_copy(update={"arrivals": (*view.arrivals, arrival)})
        self._judge(arrival.call)

    def _judge(self, call: int) -> None:
        view = self._view(call)
        here = [each for each in view.arrivals if each.fingerprint is not None]
        if view.go is not None and len(here) == self._world():
            self.views[call] = view.model_copy(update={"begun": True})

    def _recorded(self, outcome: Outcome) -> None:
        view = self._view(outcome.call)
        self.views[outcome.call] = view.model_copy(update={"outcomes": (*view.outcomes, outcome)})
        if outcome.status != "ok" and self.wish is None:
            self.wish = Stop(reason=Reason.PEER_FAILED)

    def _stored(self, call: int) -> None:
        stored = [each for each in self.reports if isinstance(each, CallStored) and each.call == call]
        if len(stored) == shape(self.spec)[0]:
            self.views[call] = self._view(call).model_copy(update={"settled": True})
