"""What is peculiar to SQLite: schemas, damage, full and read-only disks, forks, and two processes at once."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from gpulayer.control.store import jobs, processes, schema, sqlite
from gpulayer.control.store.migrations import run
from gpulayer.control.store.store import Store, open_store
from gpulayer.control.store.tables import log_sizes, metadata
from gpulayer.errors import DiskFull, HomeDamaged, HomeTooNew
from gpulayer.spec.states import JobState
from tests.control.elsewhere import running, said
from tests.control.given import a_command, a_record
from tests.control.store.forked import refuses_a_forked_child


@contextmanager
def opened(folder: Path) -> Iterator[Store]:
    store = open_store(folder)
    try:
        yield store
    finally:
        store.close()


def set_schema(folder: Path, number: int) -> None:
    raw = sqlite3.connect(folder / "plane.db")
    raw.execute(f"PRAGMA user_version={number}")
    raw.commit()
    raw.close()


def test_the_migrations_make_the_schema_of_the_tables() -> None:
    with sa.create_engine("sqlite://").connect() as db:
        run.upgrade(db, 0)
        assert compare_metadata(MigrationContext.configure(db), metadata) == []


def test_there_is_a_migration_for_every_schema_number() -> None:
    names = sorted(path.name[:4] for path in (Path(run.__file__).parent / "versions").glob("0*.py"))
    assert names == [f"{number:04d}" for number in range(1, schema.NEWEST + 1)]


def test_a_database_of_a_newer_program_is_refused_untouched(tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    set_schema(tmp_path, schema.NEWEST + 1)
    before = (tmp_path / "plane.db").read_bytes()
    with pytest.raises(HomeTooNew, match=f"schema {schema.NEWEST + 1}"):
        open_store(tmp_path)
    assert (tmp_path / "plane.db").read_bytes() == before


def test_an_older_program_that_is_running_writes_nothing_after_an_upgrade(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        set_schema(tmp_path, schema.NEWEST + 1)
        with pytest.raises(HomeTooNew), store.write() as db:
            jobs.add(db, a_record(), ())
        with store.read() as db:
            assert jobs.newest(db, 1) == []


def test_an_older_database_is_upgraded_on_opening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path):
        pass
    asked: list[int] = []
    monkeypatch.setattr(schema, "NEWEST", schema.NEWEST + 1)
    monkeypatch.setattr(run, "upgrade", lambda db, found: asked.append(found))
    with opened(tmp_path) as store, store.read() as db:
        assert sqlite.schema_number(db) == schema.NEWEST
    assert asked == [schema.NEWEST - 1]


def test_a_home_of_the_first_schema_keeps_what_it_has(tmp_path: Path) -> None:
    with sa.create_engine(f"sqlite:///{tmp_path}/plane.db").begin() as db:
        run.upgrade(db, 0, to=1)
        db.exec_driver_sql("INSERT INTO processes VALUES ('prc-1', 'caller', 12, 1.0, 0, NULL)")
        db.exec_driver_sql("INSERT INTO log_chunks (job_id, count, lines) VALUES ('job-1', 3, x'0102'), ('job-1', 1, x'03')")
        sqlite.set_schema_number(db, 1)
    with opened(tmp_path) as store, store.read() as db:
        assert sqlite.schema_number(db) == schema.NEWEST
        assert processes.find(db, "prc-1") == ("prc-1", "caller", 12, False)
        assert db.execute(sa.select(log_sizes)).all() == [("job-1", 4, 3)]
        assert compare_metadata(MigrationContext.configure(db), metadata) == []


def test_alembic_is_not_imported_where_the_schema_is_the_newest(tmp_path: Path) -> None:
    program = """
        import sys, pathlib
        from gpulayer.control.store.store import open_store
        open_store(pathlib.Path(sys.argv[1])).close()
        print([name for name in ("alembic", "sqlalchemy.orm", "fsspec", "torch") if name in sys.modules])
    """
    for _ in range(2):
        with running(program, tmp_path) as process:
            assert said(process) == "[]"


def test_what_is_no_database_is_called_damaged(tmp_path: Path) -> None:
    (tmp_path / "plane.db").write_bytes(b"not a database at all" * 500)
    with pytest.raises(HomeDamaged, match="Move the folder away"):
        open_store(tmp_path)


def test_a_damaged_page_is_called_damaged(tmp_path: Path) -> None:
    with opened(tmp_path) as store, store.write() as db:
        for _ in range(50):
            jobs.add(db, a_record(spec=a_command(env={"A": "x" * 3000})), ())
    raw = bytearray((tmp_path / "plane.db").read_bytes())
    raw[8192:] = b"\xff" * (len(raw) - 8192)
    (tmp_path / "plane.db").write_bytes(raw)
    with pytest.raises(HomeDamaged), opened(tmp_path) as store, store.read() as db:
        jobs.newest(db, 100)


def test_a_forked_child_is_refused_and_does_the_parent_no_harm(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        refuses_a_forked_child(store)


def test_two_processes_that_open_a_fresh_home_at_once_both_can(tmp_path: Path) -> None:
    program = """
        import sys, pathlib
        from gpulayer.control.store.store import open_store
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(20):
            folder = pathlib.Path(sys.argv[1]) / str(number)
            folder.mkdir(exist_ok=True)
            open_store(folder).close()
        print("done", flush=True)
    """
    with running(program, tmp_path) as one, running(program, tmp_path) as two:
        for process in (one, two):
            assert said(process) == "ready"
        for process in (one, two):
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        assert [said(process) for process in (one, two)] == ["done", "done"]


def test_of_two_processes_that_write_one_job_each_write_of_one_wins(tmp_path: Path) -> None:
    program = """
        import sys, pathlib
        from gpulayer.control.store import jobs
        from gpulayer.control.store.store import open_store
        from gpulayer.spec.states import Reason
        store = open_store(pathlib.Path(sys.argv[1]))
        won = lost = 0
        print("ready", flush=True)
        sys.stdin.readline()
        while won < 200:
            with store.read() as db:
                old = jobs.load(db, sys.argv[2])
            try:
                with store.write() as db:
                    jobs.save(db, old, old.model_copy(update={"attempt": old.attempt + 1}), ())
                won += 1
            except jobs.Conflict:
                lost += 1
        print(won, flush=True)
    """
    with opened(tmp_path) as store:
        with store.write() as db:
            record = jobs.add(db, a_record(), ())
        with running(program, tmp_path, record.id) as one, running(program, tmp_path, record.id) as two:
            for process in (one, two):
                assert said(process) == "ready"
            for process in (one, two):
                assert process.stdin is not None
                process.stdin.write("\n")
                process.stdin.flush()
            assert [said(process) for process in (one, two)] == ["200", "200"]
        with store.read() as db:
            assert jobs.load(db, record.id).attempt == 400


def test_a_process_killed_in_the_middle_of_a_write_leaves_the_whole_before(tmp_path: Path) -> None:
    program = """
        import sys, pathlib
        from sqlalchemy import update
        from gpulayer.control.store import tables
        from gpulayer.control.store.store import open_store
        store = open_store(pathlib.Path(sys.argv[1]))
        with store.write() as db:
            db.execute(update(tables.jobs).values(state="lost"))
            print("written", flush=True)
            sys.stdin.readline()
    """
    with opened(tmp_path) as store:
        with store.write() as db:
            record = jobs.add(db, a_record(), ())
        with running(program, tmp_path) as process:
            assert said(process) == "written"
            process.kill()
            process.wait()
            with store.write() as db:
                assert jobs.load(db, record.id).state is JobState.QUEUED


def fill(store: Store, kept: list[str]) -> None:
    while len(kept) < 1000:
        record = a_record(spec=a_command(env={"A": "x" * 20000}))
        with store.write() as db:
            jobs.add(db, record, ())
        kept.append(record.id)


def test_a_full_disk_is_named_and_nothing_is_lost(small_disk: Path) -> None:
    kept: list[str] = []
    with opened(small_disk) as store:
        with pytest.raises(DiskFull, match="Free some space"):
            fill(store, kept)
        with store.read() as db:
            assert {each.id for each in jobs.newest(db, 1000)} == set(kept)
    with opened(small_disk) as store, store.read() as db:
        assert {each.id for each in jobs.newest(db, 1000)} == set(kept)


def test_a_fresh_home_on_a_full_disk_is_refused_by_name(small_disk: Path) -> None:
    with (small_disk / "filler").open("wb") as filler, suppress(OSError):
        while True:
            filler.write(b"x" * 65536)
            filler.flush()
    with pytest.raises(DiskFull):
        open_store(small_disk)
