"""Shipping: a task's spool as batches of log lines, each given again until it was taken."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from gpulayer.logs.spool import SpooledLine, SpoolReader
from gpulayer.spec.logs import LogLine, of_checked


class Shipment:
    """What is still to be sent of one node's lines.

    ``marks`` are the plane's (``Plane.log_marks``): lines up to there are stored already. A batch stays the next one until
    ``taken``, so a plane that could not be reached loses nothing; re-sent lines are dropped there by their numbers.
    """

    def __init__(
        self,
        reader: SpoolReader,
        *,
        job_id: str,
        attempt: int,
        node_rank: int,
        marks: Mapping[str, int] | None = None,
        most_lines: int = 5_000,
        most_bytes: int = 1024 * 1024,
    ) -> None:
        self._reader = reader
        self._task = (job_id, attempt, node_rank)
        self._marks = dict(marks or {})
        self._most = (most_lines, most_bytes)
        self._waiting: deque[SpooledLine] = deque()
        self._batch: tuple[LogLine, ...] = ()

    def batch(self) -> tuple[LogLine, ...]:
        """Return the next lines to send: at least one line while there is any, at most the limits otherwise."""
        if not self._batch:
            if not self._waiting:
                self._waiting.extend(self._reader.read(self._marks))
            self._batch = self._cut()
        return self._batch

    def taken(self) -> None:
        """Take note that the plane stored the batch."""
        self._batch = ()

    def _cut(self) -> tuple[LogLine, ...]:
        lines: list[LogLine] = []
        most_lines, room = self._most
        while self._waiting and len(lines) < most_lines:
            room -= len(self._waiting[0].text)
            if room < 0 and lines:
                break
            lines.append(self._line(self._waiting.popleft()))
        return tuple(lines)

    def _line(self, line: SpooledLine) -> LogLine:
        job_id, attempt, node_rank = self._task
        return of_checked(
            {
                "job_id": job_id,
                "attempt": attempt,
                "node_rank": node_rank,
                "rank": line.rank,
                "stream": line.stream,
                "seq": line.seq,
                "time": line.time,
                "text": line.text,
                "call": line.call,
            }
        )
