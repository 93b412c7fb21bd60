"""A job's lines as they come."""

from __future__ import annotations

from collections.abc import Iterator

from gpulayer.plane import Plane
from gpulayer.spec.logs import LogLine
from gpulayer.spec.news import Cursor

LOOK_S = 5.0


def follow_lines(plane: Plane, job_id: str, *, rank: int | None = None, tail: int | None = None) -> Iterator[LogLine]:
    """Yield lines until the job has ended and its last line was seen; ``tail`` skips all but the last of those there now."""
    cursor = Cursor()
    news = plane.news(job_id, cursor)
    first = [line for line in news.lines if rank in (None, line.rank)]
    yield from first if tail is None else first[len(first) - min(tail, len(first)) :]
    while not news.job.state.terminal or news.lines:
        news = plane.news(job_id, news.cursor, timeout_s=LOOK_S)
        yield from (line for line in news.lines if rank in (None, line.rank))
