"""Builders of the values that tests of the control plane begin with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpulayer.spec.base import new_id
from gpulayer.spec.files import Blob, CheckpointShare, FileEntry
from gpulayer.spec.job import CommandJob, DistributedJob
from gpulayer.spec.logs import LogLine
from gpulayer.spec.records import JobRecord, TaskRecord
from gpulayer.spec.workers import Capabilities, WorkerInfo
from tests.waiting import wait_for


def a_command(**fields: Any) -> CommandJob:
    return CommandJob(command=("true",), **fields)


def a_gang(num_workers: int = 2, procs_per_worker: int = 1, **fields: Any) -> DistributedJob:
    return DistributedJob(entrypoint="train.py", num_workers=num_workers, procs_per_worker=procs_per_worker, **fields)


def a_worker(name: str = "one", **fields: Any) -> WorkerInfo:
    able = Capabilities(
        machine="here",
        hostname="here",
        os="linux",
        python="3.11.7",
        cpus=4,
        memory_gb=16,
        disk_gb=100,
        frameworks={"torch": "2.13.0", "lightning": "2.6.6"},
        backends=("gloo",),
        launcher=True,
        advertise_address="127.0.0.1",
    )
    return WorkerInfo(**{"id": new_id("wkr"), "name": name, "incarnation": "first", "capabilities": able, **fields})


def a_record(**fields: Any) -> JobRecord:
    return JobRecord(**{"id": new_id("job"), "spec": a_command(), "created_at": 1.0, **fields})


def a_task(record: JobRecord, node_rank: int = 0, worker_id: str = "wkr-1", **fields: Any) -> TaskRecord:
    given = {"job_id": record.id, "attempt": 1, "node_rank": node_rank, "worker_id": worker_id, "assigned_at": 2.0}
    return TaskRecord(**{**given, **fields})


def some_lines(job_id: str, texts: list[str], *, first: int = 0, **fields: Any) -> list[LogLine]:
    given = {"job_id": job_id, "attempt": 1, "node_rank": 0, "rank": 0, "stream": "stdout", "time": 1.5}
    return [LogLine(**{**given, "seq": first + number, "text": text, **fields}) for number, text in enumerate(texts)]


def a_blob(content: str = "x") -> Blob:
    import hashlib

    return Blob(sha256=hashlib.sha256(content.encode()).hexdigest(), size=len(content))


def a_share(job_id: str, rank: int, *, path: str = "last.ckpt", serial: int = 1, **fields: Any) -> CheckpointShare:
    entries = (FileEntry(path=path, blob=a_blob(f"{path}-{serial}-{rank}")),)
    given: dict[str, Any] = {"job_id": job_id, "attempt": 1, "rank": rank, "path": path, "serial": serial, "entries": entries}
    return CheckpointShare(**{**given, **fields})


def until(true: Callable[[], object], within_s: float = 10.0) -> None:
    """Wait for the thing itself; fails at the deadline."""
    wait_for(true, within=within_s)
