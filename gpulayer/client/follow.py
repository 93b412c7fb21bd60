"""Follows a job from its news: shows lines and progress, passes Ctrl-C on, and returns when what was awaited is there."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Protocol

from gpulayer.client.interrupts import Interrupts
from gpulayer.plane import Plane
from gpulayer.spec.logs import LogLine
from gpulayer.spec.news import Cursor, News
from gpulayer.spec.records import JobRecord

LOOK_S = 0.25
"""How long one look for news may take: a Ctrl-C is acted on after it."""


class Showing(Protocol):
    """Where a follower shows how a job stands."""

    def show(self, job: JobRecord) -> None: ...

    def pause(self) -> None:
        """Clear the way for a line of the job."""

    def close(self) -> None: ...


class Follower:
    """Stands at one place in a job's news, and shows each line once however often it is asked."""

    def __init__(self, plane: Plane, job_id: str, *, show_ranks: bool = False) -> None:
        self.plane = plane
        self.job_id = job_id
        self._cursor = Cursor()
        self._show_ranks = show_ranks

    def until(
        self, done: Callable[[JobRecord], bool], *, showing: Showing, interrupts: Interrupts, each: Callable[[JobRecord], None]
    ) -> JobRecord:
        """Follow until ``done`` says so; ``each`` sees every state on the way.

        One Ctrl-C asks for the job's end and goes on following (its last checkpoint is still to come), a second kills it.
        """
        heard = 0
        try:
            while True:
                job = self.look(LOOK_S, showing)
                if done(job):
                    return job
                each(job)
                if interrupts.count > heard:
                    heard = interrupts.count
                    say("stopping the job; Ctrl-C again kills it." if heard == 1 else "killing the job.", showing)
                    self.plane.cancel(self.job_id, kill=heard > 1)
        finally:
            showing.close()

    def look(self, timeout_s: float, showing: Showing) -> JobRecord:
        """Take the news, show them, and return the job as it is."""
        news = self._take(timeout_s, showing)
        while news.more:
            news = self._take(0.0, showing)
        showing.show(news.job)
        return news.job

    def _take(self, timeout_s: float, showing: Showing) -> News:
        news = self.plane.news(self.job_id, self._cursor, timeout_s=timeout_s)
        self._cursor = news.cursor
        lines = [line for line in news.lines if self._is_shown(line)]
        if lines:
            showing.pause()
        for line in lines:
            print(self._in_words(line), file=sys.stderr if line.stream == "stderr" else sys.stdout, flush=True)
        return news

    def _is_shown(self, line: LogLine) -> bool:
        return self._show_ranks or (line.rank == 0 and line.call is not None)

    def _in_words(self, line: LogLine) -> str:
        if not self._show_ranks:
            return line.text
        return f"[{line.stream if line.rank is None else f'rank{line.rank}'}] {line.text}"


def say(text: str, showing: Showing | None = None) -> None:
    """Tell the user something of ours, on stderr."""
    if showing is not None:
        showing.pause()
    print(f"gpulayer: {text}", file=sys.stderr, flush=True)
