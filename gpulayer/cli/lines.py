"""A job's lines as they come, and whose they are."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator, Mapping

from gpulayer.cli.following import say
from gpulayer.client.follow import BEAT_S
from gpulayer.client.listening import Listener
from gpulayer.client.silence import Silence
from gpulayer.plane import Plane
from gpulayer.spec.logs import LogLine
from gpulayer.spec.news import Cursor, News
from gpulayer.spec.records import JobRecord

_NOT_ESCAPED = re.compile("[\x7f-\x9f]")
"""Control characters that JSON lets through."""


def follow_lines(plane: Plane, job_id: str, *, rank: int | None = None, tail: int | None = None) -> Iterator[LogLine]:
    """Yield lines until the job has ended and its last line was seen; ``tail`` skips all but the last of those there now."""
    listener, silence = Listener(plane, job_id), Silence(plane, say)
    news = _heard(listener, silence, Cursor())
    first = deque((line for line in news.lines if rank in (None, line.rank)), maxlen=tail)
    while tail is not None and news.more:
        news = _heard(listener, silence, news.cursor)
        first.extend(line for line in news.lines if rank in (None, line.rank))
    yield from first
    while not news.job.state.terminal or news.lines:
        heard = plane.news(job_id, news.cursor) if news.job.state.terminal else listener.hear(news.cursor, BEAT_S)
        silence.look()
        if heard is not None:
            news = heard
            yield from (line for line in news.lines if rank in (None, line.rank))


def _heard(listener: Listener, silence: Silence, cursor: Cursor) -> News:
    """Wait for news that are there already, and say so when the plane is not."""
    while (news := listener.hear(cursor, BEAT_S)) is None:
        silence.look()
    silence.look()
    return news


class WorkersOf(Mapping[tuple[int, int], str]):
    """The names of a job's workers by attempt and node rank, as far as the plane still knows them.

    A job that is followed may be placed later, or once more: for an attempt that is news, the plane is asked.
    """

    def __init__(self, plane: Plane, job: JobRecord) -> None:
        self._plane = plane
        self._job_id = job.id
        self._newest = 0
        self._names: dict[tuple[int, int], str] = {}
        self._learn(job)

    def _learn(self, job: JobRecord) -> None:
        self._newest = job.attempt
        self._names |= {(job.attempt, task.node_rank): task.worker_name for task in job.tasks}

    def __getitem__(self, task: tuple[int, int]) -> str:
        if task[0] > self._newest:
            self._learn(self._plane.job(self._job_id))
        return self._names[task]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def line_json(line: LogLine, workers: Mapping[tuple[int, int], str]) -> str:
    """Return a line as ``jobs logs --json`` prints it: with the name of its worker, where that is known."""
    told = line.model_dump(mode="json") | {"worker": workers.get((line.attempt, line.node_rank))}
    shown = json.dumps(told, ensure_ascii=False, separators=(",", ":"))
    return _NOT_ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", shown)
