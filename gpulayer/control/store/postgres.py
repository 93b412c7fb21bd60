"""All that is peculiar to PostgreSQL: connections, the schema's number, locks, its clock, what its errors mean."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

import psycopg
from psycopg.types.string import StrDumperUnknown
from sqlalchemy import URL, Connection, Engine, Table, create_engine, event, inspect, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import DBAPIError

from gpulayer.control.store import postgres_errors, schema, touched
from gpulayer.control.store.database import Listener
from gpulayer.control.store.notifications import Notifications
from gpulayer.control.store.tables import metadata
from gpulayer.errors import DatabaseUnusable

POOL, OVERFLOW, POOL_S = 10, 20, 30.0
"""Connections that a server keeps, opens besides under load, and how long a thread waits for one."""
CLOCK_S = 60.0
"""How long a look at the database's clock is good for."""
_STUCK_S = 60
"""After how long a transaction that does nothing is broken off: its server hangs, and others wait for its locks."""
_NUMBER = "gpulayer_schema"
_PATIENCE = {"connect_timeout": 10, "keepalives_idle": 15, "keepalives_interval": 5, "keepalives_count": 3}


def open_at(url: URL) -> Postgres:
    """Open the database at ``url``, creating or upgrading our tables in it as needed."""
    place = url.difference_update_query(("password", "sslpassword")).render_as_string(hide_password=True)
    engine = _engine(url)
    try:
        with postgres_errors.named(place, opening=True):
            _prepare(engine, place)
    except BaseException:
        engine.dispose()
        raise
    return Postgres(engine, place)


class Postgres:
    """A PostgreSQL database (see ``database.Database``), of which other servers may write as well.

    Writes see what was committed when each statement begins; what must not change under a decision is locked by the functions
    that read it. Reads see one moment.
    """

    one_writer = False

    def __init__(self, engine: Engine, place: str) -> None:
        self._place = place
        self._writing = engine
        self._reading = engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        self._notifications = Notifications(_connecting(engine))
        self._clock = _Clock(engine)

    def __str__(self) -> str:
        return self._place

    def connect(self, touches: set[str] | None) -> Connection:
        if touches is None:
            return self._reading.connect()
        return self._writing.connect().execution_options(**{touched.OPTION: touches})

    def errors_named(self) -> AbstractContextManager[None]:
        return postgres_errors.named(self._place)

    def refuse_newer(self, db: Connection) -> None:
        # reading the number keeps an upgrade, which locks that table, out until this transaction has ended
        _refuse_newer(int(db.execute(text(f"SELECT number FROM {_NUMBER}")).scalar_one()), self._place)

    def tell(self, db: Connection, names: Iterable[str]) -> None:
        self._notifications.send(db, names)

    def hear(self, listener: Listener) -> None:
        self._notifications.hear(listener)

    def now(self) -> float:
        with postgres_errors.named(self._place):
            return self._clock.now()

    @contextmanager
    def alone(self, name: str) -> Iterator[None]:
        with postgres_errors.named(self._place), self._writing.connect() as db:
            lock = db.begin()
            db.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _key(name)})
            try:
                yield
            finally:
                with suppress(DBAPIError):  # the lock was lost with its connection; every write was a compare-and-set
                    lock.rollback()

    def close(self) -> None:
        self._notifications.close()
        self._writing.dispose()


def _key(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(f"gpulayer/{name}".encode(), digest_size=8).digest(), signed=True)


class _Clock:
    """The database's time, carried on by this machine's monotonic clock between looks."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._looking = threading.Lock()
        self._looked_at = float("-inf")
        self._offset = 0.0

    def now(self) -> float:
        if time.monotonic() > self._looked_at + CLOCK_S:
            with self._looking:
                if time.monotonic() > self._looked_at + CLOCK_S:
                    self._look_if_it_answers()
        return time.monotonic() + self._offset

    def _look_if_it_answers(self) -> None:
        try:
            self._look()
        except DBAPIError:
            if self._looked_at == float("-inf"):
                raise
            self._looked_at += CLOCK_S  # our own clock is good for as long again

    def _look(self) -> None:
        with self._engine.connect() as db:
            before = time.monotonic()
            there = float(db.execute(text("SELECT extract(epoch FROM clock_timestamp())::float8")).scalar_one())
            after = time.monotonic()
        self._offset, self._looked_at = there - (before + after) / 2, after


class _Text(StrDumperUnknown):
    """PostgreSQL keeps neither NUL nor half a surrogate in a text. What must come back whole is JSON or bytes."""

    def dump(self, obj: str) -> Any:
        return obj.replace("\0", "\ufffd").encode("utf-8", "replace")


def _engine(url: URL) -> Engine:
    engine = create_engine(
        url.set(drivername="postgresql+psycopg"),
        connect_args={key: value for key, value in _PATIENCE.items() if key not in url.query},
        isolation_level="READ COMMITTED",
        pool_size=POOL,
        max_overflow=OVERFLOW,
        pool_timeout=POOL_S,
        pool_pre_ping=True,
        use_native_hstore=False,
        client_encoding="utf8",
    )
    event.listen(engine, "connect", _on_connect)
    return engine


def _on_connect(raw: psycopg.Connection[Any], _record: Any) -> None:
    raw.adapters.register_dumper(str, _Text)
    raw.execute(f"SET idle_in_transaction_session_timeout = '{_STUCK_S}s'")
    raw.commit()


def _connecting(engine: Engine) -> Any:
    """Return how to open a connection that is in no pool."""
    _, options = engine.dialect.create_connect_args(engine.url)
    options = {**_PATIENCE, **options, "autocommit": True}
    return lambda: psycopg.connect(**options)


def _prepare(engine: Engine, place: str) -> None:
    """Create or upgrade our tables where they aren't the newest; newer ones are refused, untouched."""
    with engine.connect() as db, db.begin():
        _refuse_encoding(db, place)
        found = _schema_number(db)
    _refuse_newer(found, place)
    if found == schema.NEWEST:
        return
    with engine.connect() as db, db.begin():
        db.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _key("upgrade")})
        found = _schema_number(db)  # another server may have been first
        _refuse_newer(found, place)
        if found < schema.NEWEST:
            _upgrade(db, found, place)


def _upgrade(db: Connection, found: int, place: str) -> None:
    if found == 0:
        _refuse_strangers(db, place)
        db.execute(text(f"CREATE TABLE {_NUMBER} (number INTEGER NOT NULL)"))
        db.execute(text(f"INSERT INTO {_NUMBER} VALUES (0)"))
    db.execute(text(f"LOCK TABLE {_NUMBER} IN ACCESS EXCLUSIVE MODE"))  # waits for those who write with the old schema
    schema.upgrade(db, found)
    db.execute(text(f"UPDATE {_NUMBER} SET number = :number"), {"number": schema.NEWEST})


def _schema_number(db: Connection) -> int:
    if not inspect(db).has_table(_NUMBER):  # by a scan: what the session remembers of names may be older than its locks
        return 0
    return int(db.execute(text(f"SELECT number FROM {_NUMBER}")).scalar_one())


def _refuse_newer(found: int, place: str) -> None:
    if found > schema.NEWEST:
        raise DatabaseUnusable(
            f"{place} was written by a newer GPUlayer (schema {found}; this one knows {schema.NEWEST}).",
            next_step="Upgrade gpulayer, or give --database another one. Nothing was changed.",
            schema=found,
            newest=schema.NEWEST,
        )


def _refuse_strangers(db: Connection, place: str) -> None:
    if theirs := sorted(set(metadata.tables) & set(inspect(db).get_table_names())):
        raise DatabaseUnusable(
            f"{place} has tables of another program: {', '.join(theirs)}.",
            next_step="Give --database a database of its own (createdb gpulayer).",
        )


def _refuse_encoding(db: Connection, place: str) -> None:
    found = db.execute(text("SHOW server_encoding")).scalar_one()
    if found != "UTF8":
        raise DatabaseUnusable(f"{place} keeps text as {found}.", next_step="Make one for it: createdb -E UTF8 -T template0.")


def insert_missing(db: Connection, table: Table, row: dict[str, Any], unique: str) -> bool:
    """Insert a row unless one with its ``unique`` is there; False when it was, committed by someone else."""
    query = insert(table).values(**row).on_conflict_do_nothing(index_elements=[unique]).returning(*table.primary_key)
    return db.execute(query).first() is not None


def upsert(db: Connection, table: Table, key: dict[str, Any], values: dict[str, Any], first: dict[str, Any]) -> None:
    """Insert a row, or set ``values`` in the one that someone else has inserted meanwhile."""
    query = insert(table).values(**key, **values, **first)
    db.execute(query.on_conflict_do_update(index_elements=list(key), set_=values))
