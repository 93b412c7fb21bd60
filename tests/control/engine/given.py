"""Builders for the stories that the engine is told: workers, jobs, snapshots, reports."""

from __future__ import annotations

from typing import Any

from gpulayer.control.engine import lockstep, placement, transitions
from gpulayer.spec.calls import Arrival, ErrorRecord, Fingerprint, Go, Outcome
from gpulayer.spec.causes import Evidence
from gpulayer.spec.events import Event
from gpulayer.spec.files import Blob, Manifest
from gpulayer.spec.job import Calls, CommandJob, DistributedJob, shape
from gpulayer.spec.ranks import Milestone
from gpulayer.spec.records import JobRecord, Plan, RendezvousPoint, Snapshot, Stop, WorkerRecord
from gpulayer.spec.reports import (
    CallStored,
    RankArrived,
    RankOutcome,
    RankPassed,
    RendezvousTaken,
    Report,
    TaskEnded,
    TaskFault,
    TaskReady,
    TaskRunning,
)
from gpulayer.spec.states import Reason, TaskState
from gpulayer.spec.workers import Capabilities, Device, WorkerInfo

BLOB = Blob(sha256="0" * 64, size=1)
CALLS = Calls(root="/home/user", cwd="/home/user")
POINT = RendezvousPoint(address="10.0.0.1", port=29500, nonce="n")


def gpus(machine: str, count: int, *, name: str = "H100", memory_gb: float = 80.0) -> tuple[Device, ...]:
    return tuple(
        Device(uuid=f"GPU-{machine}-{index}", kind="cuda", index=index, name=name, memory_gb=memory_gb)
        for index in range(count)
    )


def worker(
    name: str,
    *,
    machine: str | None = None,
    devices: tuple[Device, ...] = (),
    torch: str | None = "2.13.0",
    origin: Any = "local",
    owner: str | None = None,
    labels: dict[str, str] | None = None,
    slots: int = 1,
    state: str = "online",
    busy: int = 0,
    leased: tuple[str, ...] = (),
    busy_until: float | None = None,
    **capabilities: Any,
) -> WorkerRecord:
    has: dict[str, Any] = {
        "machine": machine or f"machine-{name}",
        "python": "3.11.7",
        "cpus": 8,
        "memory_gb": 64.0,
        "disk_gb": 500.0,
        "frameworks": {"torch": torch} if torch else {},
        "devices": devices,
        "backends": ("gloo", "nccl") if devices else ("gloo",),
        "launcher": True,
        "advertise_address": "10.0.0.1",
    }
    info = WorkerInfo(
        id=f"wkr-{name}",
        name=name,
        origin=origin,
        owner=owner,
        labels=labels or {},
        slots=slots,
        capabilities=Capabilities(**(has | capabilities)),
    )
    held = tuple((f"job-other-{index}", 1, 0) for index in range(busy))
    return WorkerRecord(info=info, state=state, busy=held, leased=leased, busy_until=busy_until)


def command(**fields: Any) -> CommandJob:
    return CommandJob(command=("true",), **fields)


def gang(num_workers: int = 2, procs_per_worker: Any = 1, **fields: Any) -> DistributedJob:
    return DistributedJob(entrypoint="train.py", num_workers=num_workers, procs_per_worker=procs_per_worker, **fields)


def queued(spec: CommandJob | DistributedJob, name: str = "a", *, at: float = 0.0, owner: str | None = None) -> JobRecord:
    return transitions.submitted(JobRecord(id=f"job-{name}", spec=spec, owner=owner), at).record


def plan(jobs: list[JobRecord], workers: list[WorkerRecord], now: float = 0.0) -> Plan:
    return placement.plan(Snapshot(queued=tuple(jobs), workers=tuple(workers)), now)


def placed(spec: CommandJob | DistributedJob, *, at: float = 0.0) -> JobRecord:
    """A job just placed on workers named w0, w1, ..."""
    record = queued(spec, at=at)
    workers = [worker(f"w{index}") for index in range(shape(spec)[0])]
    choice = plan([record], workers, at).placements[0]
    return transitions.place(record, choice, workers, at).record


def running(spec: CommandJob | DistributedJob, *, at: float = 0.0) -> JobRecord:
    """A job of which every task runs, and every rank's process is up."""
    record = placed(spec, at=at)
    for report in (ready, started):
        for node in range(len(record.tasks)):
            record = hear(record, report(record, node), at)
        if report is ready and len(record.tasks) > 1:
            record = hear(record, RendezvousTaken(**of(record, 0), point=POINT), at)
    return passed(record, "started", *range(record.world_size), at=at)


def passed(record: JobRecord, milestone: Milestone, *ranks: int, at: float = 0.0) -> JobRecord:
    for rank in ranks:
        node = of(record, rank // record.procs_per_worker)
        record = hear(record, RankPassed(**node, rank=rank, milestone=milestone), at)
    return record


def hear(record: JobRecord, report: Report, now: float = 0.0) -> JobRecord:
    return transitions.advance(record, report, now).record


def of(record: JobRecord, node: int) -> dict[str, Any]:
    """The fields with which every report begins."""
    task = record.tasks[node]
    return {"worker_id": task.worker_id, "job_id": record.id, "attempt": record.attempt, "node_rank": node}


def ready(record: JobRecord, node: int = 0) -> Report:
    return TaskReady(**of(record, node))


def started(record: JobRecord, node: int = 0) -> Report:
    return TaskRunning(**of(record, node))


def ended(
    record: JobRecord, node: int = 0, state: TaskState = TaskState.SUCCEEDED, reason: Reason = Reason.DONE, **fields: Any
) -> TaskEnded:
    return TaskEnded(**of(record, node), state=state, reason=reason, **fields)


def fault(record: JobRecord, node: int = 0, **evidence: Any) -> Report:
    return TaskFault(**of(record, node), evidence=Evidence(**{"kind": "exit", "node_rank": node, **evidence}))


def error(rank: int, qualname: str = "ValueError", *, communication: bool = False) -> ErrorRecord:
    return ErrorRecord(
        rank=rank, module="builtins", qualname=qualname, message="boom", traceback="...", communication=communication
    )


def fingerprint(call: int = 0, **fields: Any) -> Fingerprint:
    return Fingerprint(**{"call": call, "function": "fit", "trainer": 0, "module": "__main__:Net", "shapes": "abc", **fields})


def let_go(record: JobRecord, call: int = 0, now: float = 0.0, *, digest: str = "", **fields: Any) -> JobRecord:
    return lockstep.go(record, Go(fingerprint=fingerprint(call, **fields), state_digest=digest), now).record


def arrives(record: JobRecord, rank: int, call: int = 0, *, digest: str = "", **fields: Any) -> Report:
    return RankArrived(**of(record, rank // record.procs_per_worker), arrival=arrival(rank, call, digest=digest, **fields))


def leaves(record: JobRecord, rank: int, calls: int) -> Report:
    return RankArrived(**of(record, rank // record.procs_per_worker), arrival=arrival(rank, calls, left=True))


def arrival(rank: int, call: int, *, digest: str = "", left: bool = False, **fields: Any) -> Arrival:
    said = None if left else fingerprint(call, **fields)
    return Arrival(rank=rank, call=call, fingerprint=said, state_digest=digest, at=0.0)


def records(record: JobRecord, rank: int, call: int = 0, status: Any = "ok", error: ErrorRecord | None = None) -> Report:
    return RankOutcome(**of(record, rank // record.procs_per_worker), outcome=outcome(rank, call, status, error))


def outcome(rank: int, call: int, status: Any = "ok", error: ErrorRecord | None = None) -> Outcome:
    return Outcome(call=call, rank=rank, status=status, at=0.0, body=BLOB, error=error)


def stores(record: JobRecord, node: int, call: int = 0) -> Report:
    return CallStored(**of(record, node), call=call, manifest=manifest(record.id, record.attempt, node, call))


def manifest(job_id: str, attempt: int, node: int, call: int) -> Manifest:
    return Manifest(job_id=job_id, attempt=attempt, node_rank=node, entries=(), call=call)


def cancelled(record: JobRecord, now: float = 0.0, *, reason: Reason = Reason.CANCELLED_BY_USER, **fields: Any) -> JobRecord:
    return transitions.request_stop(record, Stop(reason=reason, **fields), now).record


# --- histories -----------------------------------------------------------------------------------------------------


def replayed(events: list[Event]) -> tuple[str, int, dict[int, str]]:
    """Return what a job's events say of its state, its attempt, and how the tasks of that attempt ended."""
    state, attempt, tasks = "", 0, {}
    for event in events:
        match event.kind:
            case "submitted" | "retry":
                state = "queued"
            case "placed":
                state, attempt, tasks = "running", event.attempt, {}
            case "task_ended":
                tasks[event.node_rank or 0] = str(event.facts["state"])
            case "ended":
                state = str(event.facts["state"])
    return state, attempt, tasks


def standing(record: JobRecord) -> tuple[str, int, dict[int, str]]:
    """Return the same as the record says it."""
    ended = {task.node_rank: task.state.value for task in record.tasks if task.state.terminal}
    return record.state.value, record.attempt, ended
