"""What every plane over a database answers, wherever it lies and whoever wakes its waiters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from gpulayer.control.engine import placement
from gpulayer.control.server import commands, fleet, following, scheduling
from gpulayer.control.server.sealing import Sealer
from gpulayer.control.server.vault import Vault
from gpulayer.control.store import blobs, files, jobs, log_chunks, workers
from gpulayer.control.store.store import Store
from gpulayer.spec.base import new_id
from gpulayer.spec.calls import CallView, Go
from gpulayer.spec.files import Artifact, Blob, Checkpoint
from gpulayer.spec.job import CommandJob, DistributedJob, FunctionJob
from gpulayer.spec.logs import LogLine
from gpulayer.spec.records import Explanation, JobRecord, JobSize, WorkerRecord
from gpulayer.spec.reports import Report
from gpulayer.spec.states import Reason
from gpulayer.spec.workers import WorkerInfo

if TYPE_CHECKING:
    from gpulayer.control.server.keeping import Keeper

AnyJob = CommandJob | FunctionJob | DistributedJob


class StoredPlane(ABC):
    """The part of ``gpulayer.plane.Plane`` that needs a store and nothing else; waiting is what planes differ in."""

    def __init__(self, store: Store, process_id: str) -> None:
        self._store = store
        self._process_id = process_id
        self._scheduler = scheduling.Scheduler(store)

    @property
    def process_id(self) -> str:
        """The id under which this process is known to the plane."""
        return self._process_id

    @abstractmethod
    def tick(self) -> None:
        """Do what is due, unless that was done just now."""

    @abstractmethod
    def _notify(self) -> None:
        """Tell the waiters of this process that something was written."""

    @property
    @abstractmethod
    def _keeper(self) -> Keeper: ...

    @property
    @abstractmethod
    def _secrets_key(self) -> Path:
        """The file whose key the plane's secrets are sealed with."""

    # --- callers -----------------------------------------------------------------------------------------------------

    def submit(self, job: AnyJob, *, key: str = "", owner: str | None = None) -> JobRecord:
        record = commands.submit(self._store, job, owner=owner or self.process_id, key=key, now=self._store.now())
        self._schedule()
        with self._store.read() as db:
            return commands.refuse_unschedulable(jobs.load(db, record.id))

    def job(self, job_id: str) -> JobRecord:
        self.tick()
        with self._store.read() as db:
            return jobs.load(db, jobs.full_id(db, job_id))

    def jobs(self, *, limit: int = 100) -> list[JobRecord]:
        self.tick()
        with self._store.read() as db:
            return jobs.newest(db, limit)

    def ended_jobs(self, before: float, *, limit: int = 100) -> list[JobRecord]:
        self.tick()
        with self._store.read() as db:
            return jobs.ended_before(db, before, limit)

    def size(self, job_id: str) -> JobSize:
        with self._store.read() as db:
            full = jobs.full_id(db, job_id)
            return JobSize(files=blobs.size_of_job(db, full), lines=log_chunks.stored_bytes(db, full))

    def unended_jobs(self, owner: str) -> list[JobRecord]:
        self.tick()
        with self._store.read() as db:
            return jobs.of_owner(db, owner)

    def cancel(self, job_id: str, *, reason: Reason = Reason.CANCELLED_BY_USER, kill: bool = False) -> JobRecord:
        record = commands.cancel(self._store, self.full_id(job_id), reason, kill, self._store.now())
        if record.state.terminal:
            self._schedule()
        self._notify()
        return record

    def explain(self, job_id: str) -> Explanation:
        with self._store.read() as db:
            return placement.explain(jobs.load(db, jobs.full_id(db, job_id)), scheduling.snapshot(db), self._store.now())

    def explain_spec(self, job: AnyJob, *, owner: str | None = None) -> Explanation:
        record = JobRecord(id=new_id("job"), spec=job, owner=owner or self.process_id, created_at=self._store.now())
        with self._store.read() as db:
            return placement.explain(record, scheduling.snapshot(db), self._store.now())

    def remove(self, job_id: str) -> None:
        self._remove(self.full_id(job_id))

    def _remove(self, job_id: str) -> None:
        released = commands.remove(self._store, job_id)
        self._notify()
        self._keeper.collect(self._store.now(), released)

    # --- the calls of a script ---------------------------------------------------------------------------------------

    def go(self, job_id: str, go: Go) -> CallView:
        view = commands.go(self._store, job_id, go, self._store.now())
        self._notify()
        return view

    def send_state(self, job_id: str, call: int, state: Blob) -> None:
        commands.send_state(self._store, job_id, call, state, self._store.now())
        self._notify()

    def farewell(self, job_id: str) -> None:
        if commands.farewell(self._store, job_id, self._store.now()).state.terminal:
            self._schedule()
        self._notify()

    # --- files -------------------------------------------------------------------------------------------------------

    def has_blob(self, sha256: str) -> bool:
        return self._keeper.has(sha256)

    def put_blob(self, source: Path | bytes) -> Blob:
        return self._keeper.put(source)

    def open_blob(self, sha256: str) -> BinaryIO:
        return self._keeper.open(sha256)

    def fetch_blob(self, sha256: str, to: Path) -> None:
        self._keeper.fetch(sha256, to)

    def artifacts(self, job_id: str, *, attempt: int | None = None) -> list[Artifact]:
        with self._store.read() as db:
            record = jobs.load(db, jobs.full_id(db, job_id))
            return files.of_attempt(db, record.id, record.attempt if attempt is None else attempt)

    def remove_artifacts(self, job_id: str, paths: Sequence[str]) -> list[Artifact]:
        removed = commands.remove_artifacts(self._store, self.full_id(job_id), set(paths))
        self._notify()
        self._keeper.collect(self._store.now(), {each.blob.sha256 for each in removed})
        return removed

    def checkpoints(self, job_id: str) -> list[Checkpoint]:
        with self._store.read() as db:
            return files.complete(db, jobs.full_id(db, job_id))

    # --- secrets -----------------------------------------------------------------------------------------------------

    @cached_property
    def _vault(self) -> Vault:
        return Vault(self._store, Sealer(self._secrets_key))

    def set_secret(self, name: str, value: str) -> None:
        self._vault.set(name, value)

    def secret_names(self) -> list[str]:
        return self._vault.names()

    def remove_secret(self, name: str) -> None:
        self._vault.remove(name)

    def secrets_of(self, job_id: str) -> dict[str, str]:
        return self._vault.of_job(job_id)

    # --- workers -----------------------------------------------------------------------------------------------------

    def workers(self) -> list[WorkerRecord]:
        self.tick()
        with self._store.read() as db:
            return workers.all_in(db)

    def drain(self, worker_id: str) -> None:
        fleet.drain(self._store, worker_id)
        self._schedule()

    def remove_worker(self, worker_id: str) -> None:
        fleet.remove(self._store, worker_id, self._store.now())
        self._schedule()

    def register(self, info: WorkerInfo) -> WorkerRecord:
        record = fleet.register(self._store, info, self._store.now())
        self._schedule()
        return record

    def unregister(self, worker_id: str) -> None:
        fleet.unregister(self._store, worker_id)
        self._schedule()

    def report(self, report: Report) -> None:
        if commands.report(self._store, report, self._store.now()):
            self._schedule()
        self._notify()

    def append_lines(self, job_id: str, lines: Sequence[LogLine]) -> None:
        with self._store.write() as db:
            jobs.must_exist(db, job_id)
            log_chunks.append(db, job_id, lines)
        self._notify()

    def log_marks(self, job_id: str, attempt: int, node_rank: int) -> dict[str, int]:
        with self._store.read() as db:
            return log_chunks.marks_of_node(db, job_id, attempt, node_rank)

    def lines(self, job_id: str, *, rank: int | None = None, tail: int | None = None) -> Iterator[LogLine]:
        return following.stored_lines(self._store, self.full_id(job_id), rank=rank, tail=tail)

    # -----------------------------------------------------------------------------------------------------------------

    def full_id(self, job_id: str) -> str:
        """Return the id of the job that ``job_id`` begins."""
        with self._store.read() as db:
            return jobs.full_id(db, job_id)

    def _schedule(self) -> None:
        self._scheduler.run()
        self._notify()
