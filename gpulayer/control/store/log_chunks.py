"""Log lines in compressed chunks, and how far each stream is stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sqlalchemy import Connection, func, insert, select, update

from gpulayer.control.store import packed_lines, touched
from gpulayer.control.store.replace import insert_missing, replace
from gpulayer.control.store.tables import log_chunks, log_marks, log_sizes
from gpulayer.spec.logs import LogLine

_Stream = tuple[int, int, str]
_CHUNK_BYTES = 1024**2
"""So much text is packed together at most, but for a line that is longer: who reads a line unpacks its chunk."""
_BATCH_CHUNKS, _BATCH_LINES, _BATCH_BYTES = 64, 10_000, 1024**2
"""How much of a log is read at once: a follower who comes late must not fill the memory."""


def append(db: Connection, job_id: str, lines: Sequence[LogLine]) -> int:
    """Store the lines that are above what is stored of their streams; returns how many those are."""
    if not lines:
        return 0
    in_turn(db, job_id)
    marks = _marks(db, job_id, {(line.attempt, line.node_rank) for line in lines})
    new: list[LogLine] = []
    moved: dict[_Stream, int] = {}
    for line in lines:
        stream = (line.attempt, line.node_rank, stream_name(line))
        if line.seq > marks.get(stream, -1):
            marks[stream] = moved[stream] = line.seq
            new.append(line)
    if new:
        for together in _cut(new):
            packed = packed_lines.encode(together)
            db.execute(insert(log_chunks).values(job_id=job_id, count=len(together), lines=packed))
            _grow(db, job_id, len(together), len(packed))
        _move_marks(db, job_id, moved)
        touched.note(db, job_id)
    return len(new)


def _cut(lines: Sequence[LogLine]) -> Iterator[Sequence[LogLine]]:
    start, size = 0, 0
    for at, line in enumerate(lines):
        size += len(line.text)
        if size > _CHUNK_BYTES and at > start:
            yield lines[start:at]
            start, size = at, len(line.text)
    yield lines[start:]


def in_turn(db: Connection, job_id: str) -> None:
    """Wait until no other transaction appends to the job, and keep others waiting until this one ends.

    So the ids of chunks follow the order in which they are seen, and what was read of the log is still so.
    """
    query = select(log_sizes.c.job_id).where(log_sizes.c.job_id == job_id).with_for_update()
    if db.execute(query).first() is None:
        insert_missing(db, log_sizes, {"job_id": job_id, "lines": 0, "bytes": 0}, "job_id")
        db.execute(query)


def _move_marks(db: Connection, job_id: str, moved: dict[_Stream, int]) -> None:
    for (attempt, node_rank, name), seq in moved.items():
        key = {"job_id": job_id, "attempt": attempt, "node_rank": node_rank, "stream": name}
        replace(db, log_marks, key, {"seq": seq})


def _grow(db: Connection, job_id: str, lines: int, size: int) -> None:
    more = {"lines": log_sizes.c.lines + lines, "bytes": log_sizes.c.bytes + size}
    db.execute(update(log_sizes).where(log_sizes.c.job_id == job_id).values(more))


def stored_bytes(db: Connection, job_id: str) -> int:
    """Return how much room a job's log takes."""
    return db.execute(select(log_sizes.c.bytes).where(log_sizes.c.job_id == job_id)).scalar() or 0


def stored_count(db: Connection, job_id: str) -> int:
    """Return how many lines are stored of a job's log."""
    return db.execute(select(log_sizes.c.lines).where(log_sizes.c.job_id == job_id)).scalar() or 0


def newest_line(db: Connection, job_id: str) -> LogLine | None:
    """Return the line that was stored last."""
    found = chunk(db, job_id, newest_id(db, job_id))
    return found[-1] if found else None


def stream_name(line: LogLine) -> str:
    """Name the stream of a line within its node: "3/stdout", "none/agent"."""
    return f"{'none' if line.rank is None else line.rank}/{line.stream}"


def _marks(db: Connection, job_id: str, nodes: Iterable[tuple[int, int]]) -> dict[_Stream, int]:
    found: dict[_Stream, int] = {}
    for attempt, node_rank in nodes:
        where = (log_marks.c.job_id == job_id, log_marks.c.attempt == attempt, log_marks.c.node_rank == node_rank)
        for row in db.execute(select(log_marks.c.stream, log_marks.c.seq).where(*where)):
            found[attempt, node_rank, row.stream] = row.seq
    return found


def marks_of_node(db: Connection, job_id: str, attempt: int, node_rank: int) -> dict[str, int]:
    return {name: seq for (_, _, name), seq in _marks(db, job_id, [(attempt, node_rank)]).items()}


def newest_id(db: Connection, job_id: str) -> int:
    """Return the id of a job's newest chunk, 0 when it has none."""
    return db.execute(select(func.max(log_chunks.c.id)).where(log_chunks.c.job_id == job_id)).scalar() or 0


def after(db: Connection, job_id: str, chunk_id: int) -> tuple[tuple[LogLine, ...], int]:
    """Return the lines of the next chunks after ``chunk_id`` (a batch, not all there are), and the id of the last of them."""
    query = select(log_chunks.c.id, log_chunks.c.lines).where(log_chunks.c.job_id == job_id, log_chunks.c.id > chunk_id)
    found: list[LogLine] = []
    size = 0
    for row in db.execute(query.order_by(log_chunks.c.id).limit(_BATCH_CHUNKS)):
        lines = packed_lines.decode(row.lines)
        found.extend(lines)
        chunk_id = row.id
        size += sum(len(line.text) for line in lines)
        if len(found) >= _BATCH_LINES or size >= _BATCH_BYTES:
            break
    return tuple(found), chunk_id


def next_id(db: Connection, job_id: str, chunk_id: int) -> int | None:
    """Return the id of the chunk that comes after one, 0 being before all."""
    later = select(func.min(log_chunks.c.id)).where(log_chunks.c.job_id == job_id, log_chunks.c.id > chunk_id)
    return db.execute(later).scalar()


def id_before(db: Connection, job_id: str, chunk_id: int) -> int | None:
    """Return the id of the chunk that comes before one."""
    earlier = select(func.max(log_chunks.c.id)).where(log_chunks.c.job_id == job_id, log_chunks.c.id < chunk_id)
    return db.execute(earlier).scalar()


def count(db: Connection, chunk_id: int) -> int:
    """Return how many lines a chunk holds."""
    return db.execute(select(log_chunks.c.count).where(log_chunks.c.id == chunk_id)).scalar() or 0


def chunk(db: Connection, job_id: str, chunk_id: int) -> list[LogLine]:
    """Return the lines of one chunk; none when it was removed meanwhile."""
    packed = db.execute(select(log_chunks.c.lines).where(log_chunks.c.id == chunk_id)).scalar()
    return [] if packed is None else packed_lines.decode(packed)
