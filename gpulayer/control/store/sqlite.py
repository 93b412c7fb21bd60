"""All that is peculiar to SQLite: pragmas, how transactions begin, how a change is noticed, what its errors mean."""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError, OperationalError

from gpulayer.control.store import schema, touched
from gpulayer.control.store.database import Listener
from gpulayer.errors import DiskFull, HomeBusy, HomeDamaged, HomeError, HomeTooNew, HomeUnwritable

BUSY_S = 60.0
"""How long a writer waits for another process's short transaction before it calls it stuck."""

_FULL = (errno.ENOSPC, errno.EDQUOT)
_UNWRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.ENOENT)
_LITTLE = 256 * 1024
_OPENING_S = 30.0


def open_at(path: Path, home: Path) -> SQLite:
    """Open the database at ``path``, creating or upgrading it as needed; ``home`` is where errors say the plane lies."""
    with errors_named(home):
        engine = _engine(path)
        try:
            _prepare(engine, home)
        except BaseException:
            engine.dispose()
            raise
    return SQLite(engine, home)


class SQLite:
    """A database file (see ``database.Database``). Other processes' commits are noticed by ``Watch``, not told."""

    one_writer = True

    def __init__(self, engine: Engine, home: Path) -> None:
        self._engine = engine
        self._home = home

    def __str__(self) -> str:
        return str(self._home)

    def connect(self, touches: set[str] | None) -> Connection:
        db = self._engine.connect()
        return db if touches is None else db.execution_options(plane_write=True, **{touched.OPTION: touches})

    def errors_named(self) -> AbstractContextManager[None]:
        return errors_named(self._home)

    def refuse_newer(self, db: Connection) -> None:
        _refuse_newer(schema_number(db), self._home)

    def tell(self, db: Connection, names: Iterable[str]) -> None: ...

    def hear(self, listener: Listener) -> None: ...

    def now(self) -> float:
        return time.time()

    def alone(self, name: str) -> AbstractContextManager[None]:
        return nullcontext()  # a server has its SQLite database for itself, and processes with a home meet in its writes

    def close(self) -> None:
        self._engine.dispose()


def _engine(path: Path) -> Engine:
    engine = create_engine(
        f"sqlite+pysqlite:///{path}",
        connect_args={"timeout": BUSY_S, "check_same_thread": False},
        pool_size=0,  # keep as many as threads ever asked at once: opening one costs more than most questions
    )
    event.listen(engine, "connect", _on_connect)
    event.listen(engine, "begin", _on_begin)
    return engine


def _on_connect(raw: sqlite3.Connection, _record: Any) -> None:
    raw.isolation_level = None  # else pysqlite begins transactions of its own, late and without IMMEDIATE
    raw.execute("PRAGMA synchronous=NORMAL")
    raw.execute("PRAGMA temp_store=MEMORY")


def _on_begin(db: Connection) -> None:
    write = db.get_execution_options().get("plane_write", False)
    db.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


def _prepare(engine: Engine, home: Path) -> None:
    """Create or upgrade the database where it isn't the newest; a newer one is refused, untouched."""
    with engine.connect() as db:
        found = schema_number(db)
    _refuse_newer(found, home)
    if found == schema.NEWEST:
        return
    _into_write_ahead(engine)
    with engine.connect().execution_options(plane_write=True) as db, db.begin():
        found = schema_number(db)  # another process may have been first
        _refuse_newer(found, home)
        if found < schema.NEWEST:
            schema.upgrade(db, found)
            set_schema_number(db, schema.NEWEST)


def _refuse_newer(found: int, home: Path) -> None:
    if found > schema.NEWEST:
        raise HomeTooNew(
            f"{home} was written by a newer GPUlayer (schema {found}; this one knows {schema.NEWEST}).",
            home=str(home),
            schema=found,
            newest=schema.NEWEST,
        )


def _into_write_ahead(engine: Engine) -> None:
    """Two processes that open a fresh home at once find each other's lock here, which the busy timeout doesn't wait for."""
    until = time.monotonic() + _OPENING_S
    while True:
        try:
            return _write_ahead(engine)
        except (sqlite3.OperationalError, OperationalError) as cause:
            if "locked" not in str(cause) or time.monotonic() > until:
                raise
            time.sleep(0.005)


def _write_ahead(engine: Engine) -> None:
    """Put the database into WAL mode, which it then stays in; may find it locked by one that does the same."""
    raw = engine.raw_connection()
    try:
        raw.cursor().execute("PRAGMA journal_mode=WAL")
    finally:
        raw.close()


def schema_number(db: Connection) -> int:
    return int(db.exec_driver_sql("PRAGMA user_version").scalar_one())


def set_schema_number(db: Connection, number: int) -> None:
    db.exec_driver_sql(f"PRAGMA user_version={number:d}")


class Watch:
    """Tells cheaply whether anyone else's connection has committed since the last look (3 us a look)."""

    def __init__(self, path: Path) -> None:
        self._raw = sqlite3.connect(path, timeout=BUSY_S, check_same_thread=False, isolation_level=None)
        self._seen = self._look()

    def _look(self) -> int:
        return int(self._raw.execute("PRAGMA data_version").fetchone()[0])

    def changed(self) -> bool:
        found = self._look()
        changed, self._seen = found != self._seen, found
        return changed

    def close(self) -> None:
        self._raw.close()


@contextmanager
def errors_named(home: Path) -> Iterator[None]:
    """Turn what SQLite and the file system say about the home into the errors of ``HomeError``."""
    try:
        yield
    except (DBAPIError, sqlite3.Error, OSError) as cause:
        named = _named(home, cause)
        if named is None:
            raise
        raise named from cause


def _named(home: Path, cause: Exception) -> HomeError | None:
    facts = {"home": str(home)}
    if isinstance(cause, OSError):
        if cause.errno in _FULL:
            return DiskFull(f"The disk of {home} is full.", **facts)
        if cause.errno in _UNWRITABLE:
            return HomeUnwritable(f"{home} can't be written to ({os.strerror(cause.errno or 0)}).", **facts)
        return None
    text = str(cause.orig if isinstance(cause, DBAPIError) else cause).lower()
    if "is full" in text or ("disk i/o error" in text and _free(home) < _LITTLE):
        return DiskFull(f"The disk of {home} is full.", **facts)
    if "readonly" in text or "unable to open" in text:
        if _free(home) < _LITTLE and os.access(home, os.W_OK):  # no room for the -wal or -shm file reads the same
            return DiskFull(f"The disk of {home} is full.", **facts)
        return HomeUnwritable(f"{home} can't be written to ({text}).", **facts)
    if "malformed" in text or "not a database" in text or "disk i/o error" in text:
        return HomeDamaged(f"The database of {home} can't be read ({text}).", **facts)
    if "locked" in text or "busy" in text:
        return HomeBusy(f"The database of {home} stayed locked for {BUSY_S:.0f} s.", **facts)
    return None


def _free(home: Path) -> int:
    try:
        found = os.statvfs(home)
    except OSError:
        return _LITTLE
    return found.f_bavail * found.f_frsize
