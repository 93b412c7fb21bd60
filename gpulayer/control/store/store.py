"""An open database: short reads, and writes that go one after the other."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine

from gpulayer.control.store import schema, sqlite
from gpulayer.errors import PlaneFromChild

_open: weakref.WeakSet[Store] = weakref.WeakSet()
_inherited: list[Any] = []
"""What a forked child inherited: kept for ever, since closing a connection here would reach for the parent's files."""


class Store:
    """The database of one plane. Safe to use from many threads; not from a forked child, which is refused."""

    def __init__(self, engine: Engine, home: Path) -> None:
        self._engine = engine
        self._home = home
        self._writer = threading.RLock()
        self._pid = os.getpid()
        _open.add(self)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Give a connection that sees one moment of the database."""
        self.own_process()
        with sqlite.errors_named(self._home), self._engine.connect() as db, db.begin():
            yield db

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Give a connection in a write transaction: commits at the end, or leaves everything as it was."""
        self.own_process()
        with (
            sqlite.errors_named(self._home),
            self._writer,
            self._engine.connect().execution_options(plane_write=True) as db,
            db.begin(),
        ):
            schema.refuse_newer(sqlite.schema_number(db), self._home)
            yield db

    @property
    def writer(self) -> threading.RLock:
        """Held around read, decide and write, it spares the threads of one process their conflicts."""
        self.own_process()  # the child's copy of the lock may be one that nobody will release
        return self._writer

    def own_process(self) -> None:
        """Refuse a forked child of the process that opened the store."""
        if os.getpid() != self._pid:
            raise PlaneFromChild(
                f"The plane in {self._home} was opened by process {self._pid}, the parent of this one ({os.getpid()}).",
                home=str(self._home),
            )

    def close(self) -> None:
        if os.getpid() == self._pid:
            self._engine.dispose()


def _on_fork() -> None:
    _inherited.extend(store._engine for store in _open)


os.register_at_fork(after_in_child=_on_fork)


def open_store(home: Path) -> Store:
    """Open the SQLite database of a home, creating or upgrading it as needed."""
    with sqlite.errors_named(home):
        engine = sqlite.connect(home / "plane.db")
        try:
            schema.prepare(engine, home)
        except BaseException:
            engine.dispose()
            raise
    return Store(engine, home)
