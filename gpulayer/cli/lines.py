"""A job's lines at the terminal: the stored ones, and those that are still to come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpulayer.plane import Plane
from gpulayer.spec.logs import LogLine
from gpulayer.spec.news import Cursor

LOOK_S = 5.0


def in_words(line: LogLine) -> str:
    """Return a line as people read it: tagged with its rank, if one of several wrote it."""
    return line.text if line.rank is None else f"[rank{line.rank}] {line.text}"


def stored_lines(plane: Plane, job_id: str, *, rank: int | None, tail: int | None) -> Iterable[LogLine]:
    """Return the lines that are there now."""
    return plane.lines(job_id, rank=rank, tail=tail)


def follow_lines(plane: Plane, job_id: str, *, rank: int | None = None, tail: int | None = None) -> Iterator[LogLine]:
    """Yield lines until the job has ended and its last line was seen; ``tail`` skips all but the last of those there now."""
    cursor = Cursor()
    news = plane.news(job_id, cursor)
    first = [line for line in news.lines if rank in (None, line.rank)]
    yield from first if tail is None else first[len(first) - min(tail, len(first)) :]
    while not news.job.state.terminal or news.lines:
        news = plane.news(job_id, news.cursor, timeout_s=LOOK_S)
        yield from (line for line in news.lines if rank in (None, line.rank))
