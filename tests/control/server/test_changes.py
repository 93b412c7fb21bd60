"""Waits: woken by this process, by others, at the end of their time, and by the plane's end."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpulayer.control.server.changes import Changes
from gpulayer.control.store.sqlite import Watch
from tests.control.given import until


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    raw = sqlite3.connect(tmp_path / "plane.db", isolation_level=None, check_same_thread=False)
    raw.execute("PRAGMA journal_mode=WAL")
    raw.execute("CREATE TABLE t (n)")
    yield raw
    raw.close()


@pytest.fixture
def changes(database: sqlite3.Connection, tmp_path: Path) -> Iterator[Changes]:
    made = Changes(Watch(tmp_path / "plane.db"), tick=lambda: None)
    yield made
    made.close()


def in_thread(call: Callable[[], object]) -> tuple[threading.Thread, list[object]]:
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(call()))
    thread.start()
    return thread, found


def test_what_is_there_already_is_returned_at_once(changes: Changes) -> None:
    assert changes.wait(lambda: "here", 60.0) == "here"


def test_nothing_is_returned_at_the_end_of_the_time(changes: Changes) -> None:
    assert changes.wait(lambda: None, 0.0) is None
    assert changes.wait(lambda: None, 0.02) is None


def test_all_waiters_are_woken_by_a_commit_on_any_connection(changes: Changes, database: sqlite3.Connection) -> None:
    looked = [0] * 5
    there: list[str] = []

    def look(number: int) -> str | None:
        looked[number] += 1
        return there[0] if there else None

    threads = [in_thread(lambda n=n: changes.wait(lambda: look(n), 60.0)) for n in range(5)]  # type: ignore[misc]
    until(lambda: all(looked))
    there.append("news")
    database.execute("INSERT INTO t VALUES (1)")
    for thread, found in threads:
        thread.join(10.0)
        assert found == ["news"]


def test_a_waiter_is_woken_by_its_own_process_without_a_commit(changes: Changes) -> None:
    there: list[str] = []
    looked = threading.Event()

    def look() -> str | None:
        looked.set()
        return there[0] if there else None

    thread, found = in_thread(lambda: changes.wait(look, 60.0))
    assert looked.wait(10.0)
    there.append("news")
    changes.notify()
    thread.join(10.0)
    assert found == ["news"]


def test_when_the_leader_leaves_another_waiter_leads(changes: Changes, database: sqlite3.Connection) -> None:
    there: list[str] = []
    first, _ = in_thread(lambda: changes.wait(lambda: None, 0.05))
    second, found = in_thread(lambda: changes.wait(lambda: there[0] if there else None, 60.0))
    first.join(10.0)
    there.append("news")
    database.execute("INSERT INTO t VALUES (1)")
    second.join(10.0)
    assert found == ["news"]


def test_closing_ends_all_waits(changes: Changes) -> None:
    looked = threading.Event()
    threads = [in_thread(lambda: changes.wait(lambda: looked.set(), 60.0)) for _ in range(3)]
    assert looked.wait(10.0)
    changes.close()
    for thread, found in threads:
        thread.join(10.0)
        assert found == [None]


def test_ticks_run_while_someone_waits(database: sqlite3.Connection, tmp_path: Path) -> None:
    ticks: list[int] = []
    made = Changes(Watch(tmp_path / "plane.db"), tick=lambda: ticks.append(1))
    try:
        thread, _ = in_thread(lambda: made.wait(lambda: None, 60.0))
        until(lambda: len(ticks) >= 3)
    finally:
        made.close()
        thread.join(10.0)


def test_what_a_tick_raises_reaches_one_waiter_and_the_others_wait_on(database: sqlite3.Connection, tmp_path: Path) -> None:
    failures = [OSError("once")]

    def tick() -> None:
        if failures:
            raise failures.pop()

    made = Changes(Watch(tmp_path / "plane.db"), tick)
    with pytest.raises(OSError, match="once"):
        made.wait(lambda: None, 60.0)
    assert made.wait(lambda: None, 0.01) is None
    made.close()
