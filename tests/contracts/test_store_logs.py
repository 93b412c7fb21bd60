"""What every store promises of log lines: each once, in the order of arrival."""

from __future__ import annotations

from gpulayer.control.store import jobs, log_chunks
from gpulayer.control.store.store import Store
from gpulayer.spec.logs import LogLine
from tests.control.given import some_lines


def append(store: Store, lines: list[LogLine]) -> None:
    with store.write() as db:
        log_chunks.append(db, "job-1", lines)


def texts(store: Store, after: int = 0) -> list[str]:
    with store.read() as db:
        return [line.text for line in log_chunks.after(db, "job-1", after)[0]]


def test_lines_come_back_as_they_were(store: Store) -> None:
    lines = some_lines("job-1", ["ü\x00\udcff", ""], rank=None, stream="agent", call=3)
    append(store, lines)
    with store.read() as db:
        assert log_chunks.after(db, "job-1", 0) == (tuple(lines), log_chunks.newest_id(db, "job-1"))
        assert log_chunks.marks_of_node(db, "job-1", 1, 0) == {"none/agent": 1}


def test_sending_again_is_harmless(store: Store) -> None:
    append(store, some_lines("job-1", ["a", "b"]))
    append(store, some_lines("job-1", ["a", "b", "c"]))
    append(store, some_lines("job-1", ["a"]))
    assert texts(store) == ["a", "b", "c"]


def test_a_line_twice_in_one_batch_is_stored_once(store: Store) -> None:
    append(store, [*some_lines("job-1", ["a"]), *some_lines("job-1", ["a"])])
    assert texts(store) == ["a"]


def test_streams_are_numbered_apart(store: Store) -> None:
    append(store, some_lines("job-1", ["out"]))
    append(store, some_lines("job-1", ["err"], stream="stderr"))
    append(store, some_lines("job-1", ["other rank"], rank=1))
    append(store, some_lines("job-1", ["other node"], node_rank=1))
    append(store, some_lines("job-1", ["again"], attempt=2))
    assert texts(store) == ["out", "err", "other rank", "other node", "again"]
    with store.read() as db:
        assert log_chunks.marks_of_node(db, "job-1", 1, 0) == {"0/stdout": 0, "0/stderr": 0, "1/stdout": 0}


def test_a_cursor_is_the_last_chunk_that_was_read(store: Store) -> None:
    append(store, some_lines("job-1", ["a"]))
    with store.read() as db:
        seen = log_chunks.newest_id(db, "job-1")
    assert texts(store, after=seen) == []
    append(store, some_lines("job-1", ["b"], first=1))
    assert texts(store, after=seen) == ["b"]


def test_how_much_is_stored_is_told_and_goes_with_the_job(store: Store) -> None:
    with store.write() as db:
        assert log_chunks.stored_bytes(db, "job-1") == 0
        assert log_chunks.append(db, "job-1", []) == 0
        assert log_chunks.append(db, "job-1", some_lines("job-1", ["a", "b"])) == 2
        once = log_chunks.stored_bytes(db, "job-1")
        assert log_chunks.append(db, "job-1", some_lines("job-1", ["a", "b"])) == 0
        assert log_chunks.stored_bytes(db, "job-1") == once > 0
        assert log_chunks.append(db, "job-1", some_lines("job-1", ["a", "b", "c"])) == 1
        assert log_chunks.stored_bytes(db, "job-1") > once
        assert log_chunks.stored_count(db, "job-1") == 3
        jobs.forget(db, "job-1")
        assert log_chunks.stored_bytes(db, "job-1") == 0


def test_long_lines_are_packed_and_read_a_few_at_a_time(store: Store) -> None:
    texts = [str(n) * 600_000 for n in range(5)]
    append(store, some_lines("job-1", texts))
    found: list[str] = []
    last, most = 0, 0
    with store.read() as db:
        while last < log_chunks.newest_id(db, "job-1"):
            lines, last = log_chunks.after(db, "job-1", last)
            most = max(most, sum(len(line.text) for line in lines))
            found += [line.text for line in lines]
        assert log_chunks.stored_count(db, "job-1") == 5
    assert found == texts
    assert most <= 2 * 1024**2
