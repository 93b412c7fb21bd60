"""The embedded plane: the one place where home, store, engine and artifact store meet."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from gpulayer.control.engine import placement
from gpulayer.control.server import clearing, commands, fleet, following, home, locks, scheduling, ticks
from gpulayer.control.server.changes import Changes
from gpulayer.control.server.home import Home
from gpulayer.control.store import files, jobs, log_chunks, processes, workers
from gpulayer.control.store.processes import Process
from gpulayer.control.store.sqlite import Watch, errors_named
from gpulayer.control.store.store import Store, open_store
from gpulayer.errors import HomeError
from gpulayer.spec.base import new_id
from gpulayer.spec.calls import CallView, Go
from gpulayer.spec.files import Artifact, Blob, Checkpoint
from gpulayer.spec.job import CommandJob, DistributedJob, FunctionJob
from gpulayer.spec.logs import LogLine
from gpulayer.spec.news import Cursor, News
from gpulayer.spec.records import Explanation, JobRecord, Orders, WorkerRecord
from gpulayer.spec.reports import Report
from gpulayer.spec.states import Reason
from gpulayer.spec.workers import WorkerInfo

if TYPE_CHECKING:
    from gpulayer.control.server.keeping import Keeper

AnyJob = CommandJob | FunctionJob | DistributedJob
COLLECTION_S = 60.0
"""How often a process that waits asks whether it's time to collect blobs."""


def open_home(root: Path, process: str, process_id: str | None = None) -> EmbeddedPlane:
    """Open the plane in a home, as a process of the kind ``process``; raises the errors of ``HomeError``."""
    here = home.prepare(root)
    store = open_store(here.root)
    process_id = process_id or new_id("prc")
    try:
        with errors_named(here.root):
            locks.hold(here.process_lock(process_id))  # before the row: who is listed without a lock is dead
            with store.write() as db:
                processes.add(db, process_id, process, os.getpid(), time.time())
        plane = EmbeddedPlane(here, store, Process(process_id, process, os.getpid(), False))
        plane.tick()
    except BaseException:
        here.process_lock(process_id).unlink(missing_ok=True)
        locks.release(here.process_lock(process_id))
        store.close()
        raise
    return plane


class EmbeddedPlane:
    """A plane in a home (see ``gpulayer.plane.Plane``); many threads may use it, a forked child may not."""

    def __init__(self, home: Home, store: Store, process: Process) -> None:
        self._home = home
        self._store = store
        self._process = process
        with errors_named(home.root):
            self._ticks = ticks.Ticks(home, store, Watch(home.database))
            self._changes = Changes(Watch(home.database), self._tick)
        self._scheduler = scheduling.Scheduler(store)
        self._next_collection = time.monotonic() + COLLECTION_S
        self._closing = threading.Lock()
        self._closed = False

    @property
    def process_id(self) -> str:
        """The id under which this process holds its lock: the owner of the jobs it submits."""
        return self._process.id

    def tick(self) -> None:
        """Do what is due, unless that was done just now; waits do it by themselves."""
        self._store.own_process()
        self._changes.tick_if_due()

    def _tick(self) -> None:
        if self._ticks.run(time.time()):
            self._scheduler.run()
        if time.monotonic() > self._next_collection:
            self._next_collection = time.monotonic() + COLLECTION_S
            self._keeper.collect_in_turn(time.time())

    def close(self) -> None:
        """Leave the home with a word; waits of other threads end. Closing twice is harmless."""
        with self._closing:
            if self._closed or os.getpid() != self._process.pid:
                return
            self._closed = True
        self._changes.close()
        self._ticks.close()
        try:
            with suppress(HomeError):  # a full disk: then we look like a process that died, which is cleared up as well
                with self._store.write() as db:
                    processes.leave(db, self._process.id)
                left = self._process._replace(left=True)
                clearing.lose_workers(self._store, left)
                clearing.bury(self._home, self._store, left, time.time())
        finally:
            locks.release(self._home.process_lock(self._process.id))
            self._store.close()

    # --- callers -----------------------------------------------------------------------------------------------------

    def submit(self, job: AnyJob, *, key: str = "") -> JobRecord:
        record = commands.submit(self._store, job, owner=self._process.id, key=key, now=time.time())
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

    def unended_jobs(self, owner: str) -> list[JobRecord]:
        self.tick()
        with self._store.read() as db:
            return jobs.of_owner(db, owner)

    def news(self, job_id: str, cursor: Cursor, *, timeout_s: float = 0.0, lines: bool = True) -> News:
        job_id = self._full_id(job_id)
        found = self._changes.wait(lambda: following.news(self._store, job_id, cursor, lines=lines), timeout_s)
        found = found or following.news(self._store, job_id, cursor, lines=lines, always=True)
        assert found is not None
        return found

    def cancel(self, job_id: str, *, reason: Reason = Reason.CANCELLED_BY_USER, kill: bool = False) -> JobRecord:
        record = commands.cancel(self._store, self._full_id(job_id), reason, kill, time.time())
        if record.state.terminal:
            self._schedule()
        self._changes.notify()
        return record

    def explain(self, job_id: str) -> Explanation:
        with self._store.read() as db:
            return placement.explain(jobs.load(db, jobs.full_id(db, job_id)), scheduling.snapshot(db), time.time())

    def explain_spec(self, job: AnyJob) -> Explanation:
        record = JobRecord(id=new_id("job"), spec=job, owner=self._process.id, created_at=time.time())
        with self._store.read() as db:
            return placement.explain(record, scheduling.snapshot(db), time.time())

    def remove(self, job_id: str) -> None:
        job_id = self._full_id(job_id)
        released = commands.remove(self._store, job_id)
        self._changes.notify()
        for folder in self._home.folders_of(job_id):
            shutil.rmtree(folder, ignore_errors=True)
        for lock in self._home.task_locks_of(job_id):
            lock.unlink(missing_ok=True)
        self._keeper.collect(time.time(), released)

    # --- the calls of a script ---------------------------------------------------------------------------------------

    def go(self, job_id: str, go: Go) -> CallView:
        view = commands.go(self._store, job_id, go, time.time())
        self._changes.notify()
        return view

    def send_state(self, job_id: str, call: int, state: Blob) -> None:
        commands.send_state(self._store, job_id, call, state, time.time())
        self._changes.notify()

    def farewell(self, job_id: str) -> None:
        if commands.farewell(self._store, job_id, time.time()).state.terminal:
            self._schedule()
        self._changes.notify()

    # --- files -------------------------------------------------------------------------------------------------------

    @cached_property
    def _keeper(self) -> Keeper:
        from gpulayer.artifacts.store import BlobStore  # fsspec takes a while to import, and most openers need no file
        from gpulayer.control.server.keeping import Keeper

        return Keeper(self._store, BlobStore(self._home.blobs.as_uri()))

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

    def checkpoints(self, job_id: str) -> list[Checkpoint]:
        with self._store.read() as db:
            return files.complete(db, jobs.full_id(db, job_id))

    # --- workers -----------------------------------------------------------------------------------------------------

    def workers(self) -> list[WorkerRecord]:
        self.tick()
        with self._store.read() as db:
            return workers.all_in(db)

    def drain(self, worker_id: str) -> None:
        fleet.drain(self._store, worker_id)
        self._schedule()

    def remove_worker(self, worker_id: str) -> None:
        fleet.remove(self._store, worker_id, time.time())
        self._schedule()

    def register(self, info: WorkerInfo) -> WorkerRecord:
        record = fleet.register(self._store, info, time.time())
        self._schedule()
        return record

    def unregister(self, worker_id: str) -> None:
        fleet.unregister(self._store, worker_id)
        self._schedule()

    def orders(self, worker_id: str, *, seen: int = 0, timeout_s: float = 0.0) -> Orders:
        fleet.renew(self._store, worker_id, time.time())
        look = following.OrdersLook(self._store, worker_id, seen)
        return self._changes.wait(look, timeout_s) or look.found

    def report(self, report: Report) -> None:
        if commands.report(self._store, report, time.time()):
            self._schedule()
        self._changes.notify()

    def append_lines(self, job_id: str, lines: Sequence[LogLine]) -> None:
        with self._store.write() as db:
            jobs.must_exist(db, job_id)
            log_chunks.append(db, job_id, lines)
        self._changes.notify()

    def log_marks(self, job_id: str, attempt: int, node_rank: int) -> dict[str, int]:
        with self._store.read() as db:
            return log_chunks.marks_of_node(db, job_id, attempt, node_rank)

    def lines(self, job_id: str, *, rank: int | None = None, tail: int | None = None) -> Iterator[LogLine]:
        return following.stored_lines(self._store, self._full_id(job_id), rank=rank, tail=tail)

    # -----------------------------------------------------------------------------------------------------------------

    def _full_id(self, job_id: str) -> str:
        with self._store.read() as db:
            return jobs.full_id(db, job_id)

    def _schedule(self) -> None:
        self._scheduler.run()
        self._changes.notify()
