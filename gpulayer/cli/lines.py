"""A job's lines as they come."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from gpulayer.plane import Plane
from gpulayer.spec.logs import LogLine
from gpulayer.spec.news import Cursor

LOOK_S = 5.0


def follow_lines(plane: Plane, job_id: str, *, rank: int | None = None, tail: int | None = None) -> Iterator[LogLine]:
    """Yield lines until the job has ended and its last line was seen; ``tail`` skips all but the last of those there now."""
    news = plane.news(job_id, Cursor())
    first = deque((line for line in news.lines if rank in (None, line.rank)), maxlen=tail)
    while tail is not None and news.more:
        news = plane.news(job_id, news.cursor)
        first.extend(line for line in news.lines if rank in (None, line.rank))
    yield from first
    while not news.job.state.terminal or news.lines:
        news = plane.news(job_id, news.cursor, timeout_s=LOOK_S)
        yield from (line for line in news.lines if rank in (None, line.rank))
