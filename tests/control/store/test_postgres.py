"""What is peculiar to PostgreSQL: schemas, refusals, restarts, locks between servers, and word of their commits."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

import gpulayer.control.store
from gpulayer.artifacts.store import BlobStore
from gpulayer.control.server.keeping import Keeper
from gpulayer.control.store import blobs, files, jobs, notifications, schema, workers
from gpulayer.control.store.migrations import run
from gpulayer.control.store.store import Store, open_database
from gpulayer.control.store.tables import log_sizes, metadata
from gpulayer.errors import BadRequest, DatabaseUnusable, PlaneBusy
from gpulayer.spec.states import JobState
from tests.control.elsewhere import running, said, tell
from tests.control.given import a_command, a_gang, a_record, a_share, a_task, a_worker, until
from tests.control.store.forked import refuses_a_forked_child
from tests.postgres import Cluster

BLOCKED = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
OURS = "FROM pg_stat_activity WHERE datname LIKE 'test%'"


@contextmanager
def opened(url: str) -> Iterator[Store]:
    store = open_database(url, Path("plane"))
    try:
        yield store
    finally:
        store.close()


@pytest.fixture
def store(postgres_url: str) -> Iterator[Store]:
    with opened(postgres_url) as store:
        yield store


def name_of(url: str) -> str:
    return url.partition("?")[0].rpartition("/")[2]


@contextmanager
def engine(url: str) -> Iterator[sa.Engine]:
    found = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    yield found
    found.dispose()


@contextmanager
def in_thread(does: Callable[[], object]) -> Iterator[threading.Thread]:
    thread = threading.Thread(target=does, daemon=True)
    thread.start()
    yield thread
    thread.join(20)
    assert not thread.is_alive()


def differences(db: sa.Connection) -> list[object]:
    ours = {"include_object": lambda _object, name, kind, *_: kind != "table" or name != "gpulayer_schema"}
    return compare_metadata(MigrationContext.configure(db, opts=ours), metadata)


# --- schemas ---------------------------------------------------------------------------------------------------------


def test_the_migrations_make_the_schema_of_the_tables(postgres_url: str) -> None:
    with engine(postgres_url) as found, found.begin() as db:
        run.upgrade(db, 0)
        assert differences(db) == []


def test_an_older_database_is_upgraded_and_keeps_what_it_has(postgres_url: str) -> None:
    with engine(postgres_url) as found, found.begin() as db:
        run.upgrade(db, 0, to=1)
        db.exec_driver_sql("CREATE TABLE gpulayer_schema AS SELECT 1 AS number")
        db.exec_driver_sql(
            "INSERT INTO log_chunks (job_id, count, lines) VALUES ('job-1', 3, '\\x0102'), ('job-1', 1, '\\x03')"
        )
    with opened(postgres_url) as store, store.read() as db:
        assert db.execute(sa.select(log_sizes)).all() == [("job-1", 4, 3)]
        assert differences(db) == []


def test_a_database_of_a_newer_program_is_refused(postgres: Cluster, postgres_url: str) -> None:
    with opened(postgres_url) as running_before:
        postgres.ask(f"UPDATE gpulayer_schema SET number = {schema.NEWEST + 1}", name_of(postgres_url))
        with pytest.raises(DatabaseUnusable, match=f"schema {schema.NEWEST + 1}; this one knows {schema.NEWEST}"):
            open_database(postgres_url, Path("plane"))
        with pytest.raises(DatabaseUnusable, match="Upgrade gpulayer"), running_before.write() as db:
            jobs.add(db, a_record(), ())
        with running_before.read() as db:
            assert jobs.newest(db, 1) == []


def test_two_servers_that_start_at_once_on_an_empty_database_both_come_up(postgres: Cluster) -> None:
    program = """
        import sys, pathlib
        from gpulayer.control.store.store import open_database
        print("ready", flush=True)
        for url in sys.stdin:
            open_database(url.strip(), pathlib.Path("plane")).close()
            print("up", flush=True)
    """
    with running(program) as one, running(program) as two:
        for process in (one, two):
            assert said(process) == "ready"
        for _ in range(5):
            name = postgres.create()
            for process in (one, two):
                tell(process, postgres.url(name))
            assert [said(process) for process in (one, two)] == ["up", "up"]
            postgres.drop(name)


# --- refusals --------------------------------------------------------------------------------------------------------


def refused(url: str) -> str:
    with pytest.raises(DatabaseUnusable) as caught:
        open_database(url, Path("plane"))
    text = "".join(traceback.format_exception(caught.value)) + repr(caught.value.to_wire())
    assert "sesame" not in text
    return str(caught.value)


def test_a_database_that_is_not_there_is_named_without_its_password(postgres: Cluster) -> None:
    where = f"gpulayer:sesame@/nosuch?host={postgres.folder}&password=sesame"
    said = refused(f"postgresql://{where}")
    assert 'database "nosuch" does not exist' in said
    assert "Create it first: createdb NAME." in said
    assert "gpulayer:***@/nosuch" in refused(f"postgres://{where}")


def test_a_user_that_is_not_there_is_no_missing_database(postgres: Cluster) -> None:
    said = refused(f"postgresql://nobody-here:sesame@/postgres?host={postgres.folder}")
    assert 'role "nobody-here" does not exist' in said
    assert "lets this user in" in said


def test_a_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert "Check --database" in refused(f"postgresql+psycopg://me:sesame@/gl?host={tmp_path}")


@pytest.mark.parametrize(
    "url", ["mysql://me:sesame@host/db", "sqlite://", "sqlite:///:memory:", "sesame", "postgresql://x:sesame@h:p/d"]
)
def test_what_is_no_url_of_ours_is_answered_with_those_that_are(url: str) -> None:
    assert "postgresql://USER:PASSWORD@HOST/DATABASE" in refused(url)


def test_a_database_of_another_program_is_left_alone(postgres: Cluster, postgres_url: str) -> None:
    postgres.ask("CREATE TABLE jobs (mine text)", name_of(postgres_url))
    assert "has tables of another program: jobs" in refused(postgres_url)
    assert postgres.ask("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'", name_of(postgres_url)) == [(1,)]


def test_a_database_that_can_not_keep_all_texts_is_refused(postgres: Cluster) -> None:
    postgres.ask("CREATE DATABASE test_ascii TEMPLATE template0 ENCODING 'SQL_ASCII'")
    assert "createdb -E UTF8" in refused(postgres.url("test_ascii"))
    postgres.drop("test_ascii")


def test_a_user_who_may_create_no_table_is_told_what_to_grant(postgres: Cluster, postgres_url: str) -> None:
    postgres.ask("CREATE ROLE guest LOGIN")
    assert "GRANT CREATE ON SCHEMA public" in refused(postgres_url.replace("gpulayer@", "guest@"))
    postgres.ask("DROP ROLE guest")


def test_without_psycopg_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(gpulayer.control.store, "postgres", raising=False)
    monkeypatch.delitem(sys.modules, "gpulayer.control.store.postgres", raising=False)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    assert "pip install 'gpulayer[postgres]'" in refused("postgresql://me:sesame@host/db")


# --- texts -----------------------------------------------------------------------------------------------------------


def test_a_text_that_postgresql_can_not_keep_harms_nothing(store: Store) -> None:
    record = a_record(spec=a_command(labels={"A": "\0" * 5}), sentence="it said \0")
    with store.write() as db:
        written = jobs.add(db, record, (), key="\0key")
        workers.register(db, a_worker("w\0"), 1.0)
    with store.read() as db:
        assert jobs.load(db, record.id) == written
        assert workers.all_in(db)[0].info.name == "w\0"


def test_a_text_that_is_too_long_for_its_column_is_the_askers_mistake(store: Store) -> None:
    with pytest.raises(BadRequest), store.write() as db:
        jobs.add(db, a_record(), (), key="x" * 201)


# --- connections that break ------------------------------------------------------------------------------------------


def test_a_database_that_restarts_is_busy_meanwhile_and_then_goes_on(postgres: Cluster, store: Store) -> None:
    told: list[frozenset[str]] = []
    store.listen(told.append)
    until(lambda: told)
    postgres.stop()
    with pytest.raises(PlaneBusy, match="did not answer"), store.write() as db:
        jobs.add(db, a_record(), ())
    postgres.start()
    told.clear()
    postgres.ask("SELECT 1")
    with store.write() as db:
        record = jobs.add(db, a_record(), ())
    with store.read() as db:
        assert jobs.load(db, record.id) == record
    until(lambda: {"*"} in told)


def test_the_clock_goes_on_while_the_database_is_away(postgres: Cluster, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    before = store.now()
    monkeypatch.setattr(gpulayer.control.store.postgres, "CLOCK_S", 0.0)
    postgres.stop()
    assert before <= store.now() < before + 60
    postgres.start()


def test_a_connection_that_breaks_in_a_write_leaves_nothing_of_it(postgres: Cluster, store: Store) -> None:
    with pytest.raises(PlaneBusy), store.write() as db:  # noqa: PT012
        jobs.add(db, a_record(), ())
        pid = db.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
        postgres.ask(f"SELECT pg_terminate_backend({pid})")
        jobs.add(db, a_record(), ())
    with store.write() as db:
        assert jobs.newest(db, 9) == []


def test_a_deadlock_is_a_conflict_for_one_of_the_two(store: Store) -> None:
    with store.write() as db:
        one, two = jobs.add(db, a_record(), ()), jobs.add(db, a_record(), ())
    meet, ended = threading.Barrier(2), list[str]()

    def lock(first: str, second: str) -> None:
        try:
            with store.write() as db:
                jobs.lock(db, first)
                meet.wait(10)
                jobs.lock(db, second)
            ended.append("done")
        except jobs.Conflict:
            ended.append("conflict")

    with in_thread(lambda: lock(one.id, two.id)):
        lock(two.id, one.id)
    assert sorted(ended) == ["conflict", "done"]


def test_a_closed_store_leaves_no_connection(postgres: Cluster, postgres_url: str) -> None:
    with opened(postgres_url) as store:
        store.listen(lambda names: None)
        assert store.now() > 0
        assert postgres.ask(f"SELECT count(*) > 0 {OURS}") == [(True,)]
    until(lambda: postgres.ask(f"SELECT count(*) {OURS}") == [(0,)])


def test_a_forked_child_is_refused_and_does_the_parent_no_harm(store: Store) -> None:
    with store.read() as db:
        jobs.newest(db, 1)
    refuses_a_forked_child(store)


# --- several servers -------------------------------------------------------------------------------------------------


def test_shares_of_one_checkpoint_wait_for_each_other(postgres: Cluster, store: Store) -> None:
    record = a_record(spec=a_gang())
    tasks = tuple(a_task(record, node, f"wkr-{node}") for node in (0, 1))
    with store.write() as db:
        queued = jobs.add(db, record, ())
        jobs.save(db, queued, queued.model_copy(update={"state": JobState.RUNNING, "attempt": 1, "tasks": tasks}), ())
    told: list[bool] = []

    def announce(rank: int) -> None:
        with store.write() as db:
            told.append(files.announce(db, a_share(record.id, rank, entries=()), 1.0) is not None)

    with store.write() as db:
        assert files.announce(db, a_share(record.id, 0, entries=()), 1.0) is None
        second = threading.Thread(target=announce, args=(1,), daemon=True)
        second.start()
        until(lambda: told or postgres.ask(BLOCKED) == [(1,)])
    second.join(10)
    assert told == [True]


def test_a_worker_that_was_chosen_stays_as_it_is_until_the_choice_is_written(postgres: Cluster, store: Store) -> None:
    info, moved = a_worker(), list[bool]()
    with store.write() as db:
        workers.register(db, info, 1.0)

    def lose() -> None:
        with store.write() as db:
            moved.append(workers.set_state(db, info.id, "lost"))

    with store.write() as db:
        assert [each.info for each in workers.some(db, [info.id])] == [info]
        other = threading.Thread(target=lose, daemon=True)
        other.start()
        until(lambda: moved or postgres.ask(BLOCKED) == [(1,)])
        assert moved == []
    other.join(10)
    assert moved == [True]


def test_a_blob_that_is_stored_while_it_is_collected_is_there(postgres: Cluster, store: Store, tmp_path: Path) -> None:
    stored = BlobStore(tmp_path.as_uri())
    keeper = Keeper(store, stored)
    blob = keeper.put(b"again")
    with store.write() as db:
        now = store.now()
        assert blobs.condemn(db, blob.sha256, now, untouched_since=now + 1, given_up_since=0.0)
        other = threading.Thread(target=keeper.put, args=(b"again",), daemon=True)
        other.start()
        until(lambda: not other.is_alive() or postgres.ask(BLOCKED) == [(1,)])
    stored.delete(blob.sha256)
    with store.write() as db:
        blobs.forget_condemned(db, blob.sha256, now)
    other.join(10)
    assert keeper.has(blob.sha256)


def test_one_server_at_a_time_is_alone(postgres: Cluster, postgres_url: str, store: Store) -> None:
    with opened(postgres_url) as other:
        inside: list[str] = []

        def second() -> None:
            with other.alone("plan"), other.alone("another name"):
                inside.append("second")

        with store.alone("plan"):
            thread = threading.Thread(target=second, daemon=True)
            thread.start()
            until(lambda: inside or postgres.ask(BLOCKED) == [(1,)])
            inside.append("first")
        thread.join(10)
        assert inside == ["first", "second"]


def test_a_server_that_lost_its_turn_with_its_connection_takes_it_again(postgres: Cluster, store: Store) -> None:
    alone = f"SELECT pid {OURS} AND query LIKE '%advisory_xact_lock%'"
    with store.alone("plan"):
        [(pid,)] = postgres.ask(alone)
        postgres.ask(f"SELECT pg_terminate_backend({pid})")
    with store.alone("plan"):
        assert len(postgres.ask(alone)) == 1


def test_a_server_hears_what_another_touched_and_of_its_own_once(postgres_url: str, store: Store) -> None:
    told: list[frozenset[str]] = []
    with opened(postgres_url) as other:
        heard: list[frozenset[str]] = []
        store.listen(told.append)
        other.listen(heard.append)
        until(lambda: told and heard)
        with store.write() as db:
            record = jobs.add(db, a_record(), ())
        until(lambda: {record.id, "queue"} in heard)
        with other.write() as db:
            workers.register(db, a_worker(id="wkr-1"), 1.0)
        until(lambda: {"wkr-1", "queue"} in told)
    assert told == [{"*"}, {record.id, "queue"}, {"wkr-1", "queue"}]


def test_a_listener_that_was_cut_off_hears_that_anything_may_have_changed(postgres: Cluster, store: Store) -> None:
    told: list[frozenset[str]] = []
    store.listen(told.append)
    until(lambda: told == [{"*"}])
    assert postgres.ask(f"SELECT pg_terminate_backend(pid) {OURS} AND query LIKE 'LISTEN%'") == [(True,)]
    until(lambda: told == [{"*"}, {"*"}])


def test_many_names_go_in_several_payloads_and_too_many_as_anything() -> None:
    names = [f"job-{n:012x}" for n in range(1000)]
    found = notifications.payloads("me", names)
    assert [name for each in found for name in each.split(" ")[1:]] == names
    assert len(found) > 1
    assert max(map(len, found)) < 8000
    assert notifications.payloads("me", [f"job-{n:012x}" for n in range(10_000)]) == ["me *"]
    assert notifications.payloads("me", []) == []


def test_the_clock_is_the_databases(postgres: Cluster, store: Store) -> None:
    [(before,)] = postgres.ask("SELECT extract(epoch FROM clock_timestamp())::float8")
    now = store.now()
    [(after,)] = postgres.ask("SELECT extract(epoch FROM clock_timestamp())::float8")
    assert before - 0.01 <= now <= after + 0.01
