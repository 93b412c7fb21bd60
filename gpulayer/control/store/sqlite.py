"""All that is peculiar to SQLite: pragmas, how transactions begin, how a change is noticed, what its errors mean."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError

from gpulayer.errors import DiskFull, HomeBusy, HomeDamaged, HomeError, HomeUnwritable

BUSY_S = 60.0
"""How long a writer waits for another process's short transaction before it calls it stuck."""

_FULL = (errno.ENOSPC, errno.EDQUOT)
_UNWRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.ENOENT)
_LITTLE = 256 * 1024


def connect(path: Path) -> Engine:
    """Return an engine on the database at ``path``; nothing is opened yet."""
    engine = create_engine(
        f"sqlite+pysqlite:///{path}",
        connect_args={"timeout": BUSY_S, "check_same_thread": False},
        pool_size=4,
        max_overflow=-1,
        pool_timeout=BUSY_S,
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


def write_ahead(engine: Engine) -> None:
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
