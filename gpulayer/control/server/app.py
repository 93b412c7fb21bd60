"""The embedded plane: the one place where home, store, engine and artifact store meet."""

from __future__ import annotations

import os
import shutil
import threading
import time
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from gpulayer.control.server import clearing, fleet, following, home, locks, ticks
from gpulayer.control.server.changes import Changes
from gpulayer.control.server.home import Home
from gpulayer.control.server.stored import StoredPlane
from gpulayer.control.store import processes
from gpulayer.control.store.processes import Process
from gpulayer.control.store.sqlite import Watch, errors_named
from gpulayer.control.store.store import Store, open_store
from gpulayer.errors import HomeError
from gpulayer.spec.base import new_id
from gpulayer.spec.news import Cursor, News
from gpulayer.spec.records import Orders

if TYPE_CHECKING:
    from gpulayer.control.server.keeping import Keeper

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


class EmbeddedPlane(StoredPlane):
    """A plane in a home (see ``gpulayer.plane.Plane``); many threads may use it, a forked child may not.

    Its ``process_id`` names the lock that this process holds: the owner of the jobs it submits.
    """

    def __init__(self, home: Home, store: Store, process: Process) -> None:
        super().__init__(store, process.id)
        self._home = home
        self._process = process
        with errors_named(home.root):
            self._ticks = ticks.Ticks(home, store, Watch(home.database))
            self._changes = Changes(Watch(home.database), self._tick)
        self._next_collection = time.monotonic() + COLLECTION_S
        self._closing = threading.Lock()
        self._closed = False

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

    def _notify(self) -> None:
        self._changes.notify()

    @property
    def _secrets_key(self) -> Path:
        return self._home.secrets_key

    @cached_property
    def _keeper(self) -> Keeper:
        from gpulayer.artifacts.store import BlobStore  # fsspec takes a while to import, and most openers need no file
        from gpulayer.control.server.keeping import Keeper

        return Keeper(self._store, BlobStore(self._home.blobs.as_uri()))

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

    def news(self, job_id: str, cursor: Cursor, *, timeout_s: float = 0.0, lines: bool = True) -> News:
        job_id = self.full_id(job_id)
        found = self._changes.wait(lambda: following.news(self._store, job_id, cursor, lines=lines), timeout_s)
        return found or following.news_now(self._store, job_id, cursor, lines=lines)

    def orders(self, worker_id: str, *, seen: int = 0, timeout_s: float = 0.0) -> Orders:
        fleet.renew(self._store, worker_id, time.time())
        look = following.OrdersLook(self._store, worker_id, seen)
        return self._changes.wait(look, timeout_s) or look.found

    def _remove(self, job_id: str) -> None:
        super()._remove(job_id)
        for folder in self._home.folders_of(job_id):
            shutil.rmtree(folder, ignore_errors=True)
        for lock in self._home.task_locks_of(job_id):
            lock.unlink(missing_ok=True)
