"""Asks for the news of a job in a thread of its own: who waits for them can act on a Ctrl-C at once."""

from __future__ import annotations

import threading
import time
from queue import Empty, SimpleQueue
from typing import NamedTuple

from gpulayer.plane import Plane
from gpulayer.spec.news import Cursor, News

QUESTION_S = 30.0
"""How long a plane may keep a question for news: it answers when there are any, so a quiet job costs two questions a minute."""


class _Answer(NamedTuple):
    asked: Cursor
    news: News | None
    trouble: BaseException | None


class Listener:
    """Listens for the news of one job. A question stays open while its asker does other things."""

    def __init__(self, plane: Plane, job_id: str) -> None:
        self._plane = plane
        self._job_id = job_id
        # Of the queues only this one may be written to by a signal handler that interrupted its reader.
        self._answers: SimpleQueue[_Answer | None] = SimpleQueue()
        self._open: Cursor | None = None

    def hear(self, cursor: Cursor, within_s: float | None = None) -> News | None:
        """Wait for what comes after ``cursor``; None when it was woken, or after ``within_s``: then ask again to go on."""
        if self._open != cursor:
            self._open = cursor
            threading.Thread(target=self._ask, args=(cursor,), name="gpulayer-news", daemon=True).start()
        until = None if within_s is None else time.monotonic() + within_s
        while True:
            try:
                answer = self._answers.get(timeout=None if until is None else max(0.0, until - time.monotonic()))
            except Empty:
                return None
            if answer is None:
                return None
            if answer.asked != self._open:  # of a place that its asker has left by another way
                continue
            self._open = None
            if answer.trouble is not None:
                raise answer.trouble
            return answer.news

    def wake(self) -> None:
        """End the wait of ``hear``, or the next one; a signal handler may call it."""
        self._answers.put(None)

    def _ask(self, cursor: Cursor) -> None:
        try:
            answer = _Answer(cursor, self._plane.news(self._job_id, cursor, timeout_s=QUESTION_S), None)
        except BaseException as trouble:  # whoever waits is told
            answer = _Answer(cursor, None, trouble)
        self._answers.put(answer)
