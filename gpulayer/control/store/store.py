"""An open database: short reads, writes that are whole or not at all, and word of what they touched."""

from __future__ import annotations

import os
import threading
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, make_url
from sqlalchemy.exc import ArgumentError

from gpulayer.control.store import sqlite
from gpulayer.control.store.database import Database, Listener
from gpulayer.control.store.touched import Touched
from gpulayer.errors import DatabaseUnusable, PlaneFromChild
from gpulayer.spec.events import Event

_open: weakref.WeakSet[Store] = weakref.WeakSet()
_inherited: list[Any] = []
"""What a forked child inherited: kept for ever, since closing a connection here would reach for the parent's files."""


_TURNS = 64
"""Locks that stand for all subjects, where writers needn't queue."""


class Store:
    """The database of one plane. Safe to use from many threads; not from a forked child, which is refused."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._writer = threading.RLock()
        self._turns = [threading.RLock() for _ in range(_TURNS)]
        self._listeners: list[Listener] = []
        self._watchers: list[Callable[[Event], None]] = []
        self._of_thread = threading.local()
        self._names: dict[str, threading.Lock] = defaultdict(threading.Lock)
        self._pid = os.getpid()
        _open.add(self)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Give a connection that sees one moment of the database."""
        self.own_process()
        with self._database.errors_named(), self._database.connect(None) as db, db.begin():
            yield db

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Give a connection in a write transaction: commits at the end, or leaves everything as it was."""
        self.own_process()
        touched = Touched()
        with self._telling() as told, self._writer if self._database.one_writer else nullcontext():
            with self._database.errors_named(), self._database.connect(touched) as db, db.begin():
                self._database.refuse_newer(db)
                yield db
                self._database.tell(db, touched)
            told.update(touched)
            told.events.extend(touched.events)

    @contextmanager
    def turn(self, subject: str) -> Iterator[None]:
        """Held around read, decide and write of one subject (a job's id), it spares a process's threads their conflicts."""
        self.own_process()  # the child's copy of the lock may be one that nobody will release
        lock = self._writer if self._database.one_writer else self._turns[hash(subject) % len(self._turns)]
        with self._telling(), lock:
            yield

    def listen(self, listener: Listener) -> None:
        """Call ``listener`` after every commit with what it touched, in the thread that committed and outside its locks.

        That is ids of jobs and workers, ``touched.QUEUE`` or ``touched.ANYTHING``. What other processes touched is told as
        well where the database carries word of it, by a thread of its own.
        """
        self.own_process()
        self._listeners.append(listener)
        self._database.hear(listener)

    def watch(self, watcher: Callable[[Event], None]) -> None:
        """Call ``watcher`` with each event of a job that this process wrote, as ``listen`` calls its listeners."""
        self._watchers.append(watcher)

    @contextmanager
    def _telling(self) -> Iterator[Touched]:
        """Gather what this thread touches, and tell it when its outermost turn is over."""
        outer: Touched | None = getattr(self._of_thread, "touched", None)
        if outer is not None:
            yield outer
            return
        gathered = self._of_thread.touched = Touched()
        try:
            yield gathered
        finally:
            self._of_thread.touched = None
            if gathered:
                for listener in self._listeners:
                    listener(frozenset(gathered))
            for event in gathered.events:
                for watcher in self._watchers:
                    watcher(event)

    def now(self) -> float:
        """Return the time that all processes of the plane go by."""
        return self._database.now()

    @contextmanager
    def alone(self, name: str) -> Iterator[None]:
        """Hold the plane's mutex of that name against other threads, and other servers where there may be any.

        Reads and writes inside it are transactions of their own, and those of others go on.
        """
        self.own_process()
        with self._names[name], self._database.alone(name):
            yield

    def own_process(self) -> None:
        """Refuse a forked child of the process that opened the store."""
        if os.getpid() != self._pid:
            raise PlaneFromChild(
                f"The plane in {self._database} was opened by process {self._pid}, the parent of this one ({os.getpid()}).",
                home=str(self._database),
            )

    def close(self) -> None:
        if os.getpid() == self._pid:
            self._database.close()


def _on_fork() -> None:
    _inherited.extend(store._database for store in _open)


os.register_at_fork(after_in_child=_on_fork)


def open_store(home: Path) -> Store:
    """Open the SQLite database of a home, creating or upgrading it as needed."""
    return Store(sqlite.open_at(home / "plane.db", home))


def open_database(url: str, folder: Path) -> Store:
    """Open ``sqlite:///PATH`` or ``postgresql://...``; of a file, errors say that the plane lies in ``folder``."""
    parsed = _parsed(url)
    kind = parsed.drivername.partition("+")[0]
    if kind == "sqlite" and parsed.database and parsed.database != ":memory:":
        return Store(sqlite.open_at(Path(parsed.database).absolute(), folder))
    if kind in ("postgresql", "postgres"):
        return Store(_postgres(parsed))
    raise DatabaseUnusable(f"A plane can't be kept in {parsed.render_as_string(hide_password=True)}.", next_step=_URLS)


_URLS = "Use sqlite:///PATH or postgresql://USER:PASSWORD@HOST/DATABASE."


def _parsed(url: str) -> URL:
    try:
        return make_url(url)
    except (ArgumentError, ValueError):
        raise DatabaseUnusable("The database's URL can't be read.", next_step=_URLS) from None  # the cause shows the password


def _postgres(url: URL) -> Database:
    try:
        from gpulayer.control.store import postgres
    except ImportError as cause:
        missing = f"PostgreSQL needs psycopg, which can't be imported ({cause})."
        raise DatabaseUnusable(missing, next_step="pip install 'gpulayer[postgres]'") from cause
    return postgres.open_at(url)
