"""Follows a job from its news: shows lines and progress, passes Ctrl-C on, and returns when what was awaited is there."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import groupby
from typing import Protocol

from gpulayer.client.interrupts import Interrupts
from gpulayer.client.listening import Listener
from gpulayer.client.silence import Silence
from gpulayer.client.stopping import Stopping, unheard
from gpulayer.logs.harmless import harmless
from gpulayer.plane import Plane
from gpulayer.spec.logs import LogLine
from gpulayer.spec.news import Cursor, News
from gpulayer.spec.records import JobRecord

BEAT_S = 1.0
"""How often ``each`` is called while there is no news."""


class Showing(Protocol):
    """Where a follower shows how a job stands."""

    def show(self, job: JobRecord) -> None: ...

    def pause(self) -> None:
        """Clear the way for a line of the job."""

    def close(self) -> None: ...


class Follower:
    """Stands at one place in a job's news, and shows each line once however often it is asked."""

    def __init__(self, plane: Plane, job_id: str, *, show_ranks: bool = False, show_agents: bool = True) -> None:
        self.plane = plane
        self.job_id = job_id
        self._cursor = Cursor()
        self._listener = Listener(plane, job_id)
        self._show_ranks = show_ranks
        self._show_agents = show_agents
        self.left = False
        """Whether a person has left the job while its plane was away."""

    def until(
        self, done: Callable[[JobRecord], bool], *, showing: Showing, interrupts: Interrupts, each: Callable[[JobRecord], None]
    ) -> JobRecord:
        """Follow until ``done`` says so; ``each`` sees every state on the way, and the last one again while nothing happens.

        One Ctrl-C asks for the job's end and goes on following (its last checkpoint is still to come), a second kills it, or
        leaves it (a ``KeyboardInterrupt``) when the plane has not heard the first.
        """
        heard = 0
        silence = Silence(self.plane, lambda words: say(f"{words}.", showing))
        stopping = Stopping(self.plane, self.job_id, self._listener.wake)
        interrupts.on_interrupt = self._listener.wake
        try:
            job = self.look(0.0, showing)
            while not done(job):
                each(job)
                silence.look()
                stopping.check()
                if interrupts.count > heard:
                    heard = interrupts.count
                    self._stop(stopping, showing, kill=heard > 1)
                news = self._listener.hear(self._cursor, BEAT_S)
                if news is not None:
                    job = self._take(news, showing)
                else:  # what lasts is news as well
                    showing.show(job)
            return job
        finally:
            showing.close()

    def _stop(self, stopping: Stopping, showing: Showing, *, kill: bool) -> None:
        if not stopping.is_heard():
            self.left = True
            say(unheard(self.job_id), showing)
            raise KeyboardInterrupt
        say("killing the job." if kill else "stopping the job; Ctrl-C again kills it.", showing)
        stopping.ask(kill=kill)

    def look(self, timeout_s: float, showing: Showing) -> JobRecord:
        """Take the news, show them, and return the job as it is."""
        return self._take(self._news(timeout_s), showing)

    def _news(self, timeout_s: float) -> News:
        return self.plane.news(self.job_id, self._cursor, timeout_s=timeout_s)

    def _take(self, news: News, showing: Showing) -> JobRecord:
        self._show(news, showing)
        while news.more:
            news = self._news(0.0)
            self._show(news, showing)
        showing.show(news.job)
        return news.job

    def _show(self, news: News, showing: Showing) -> None:
        self._cursor = news.cursor
        lines = [line for line in news.lines if self._is_shown(line)]
        if lines:
            showing.pause()
        for stream, together in groupby(lines, lambda line: line.stream):
            print("\n".join(map(self._in_words, together)), file=sys.stderr if stream == "stderr" else sys.stdout, flush=True)

    def _is_shown(self, line: LogLine) -> bool:
        if line.stream == "agent" and not self._show_agents:
            return False
        return self._show_ranks or (line.rank == 0 and line.call is not None)

    def _in_words(self, line: LogLine) -> str:
        if not self._show_ranks:
            return line.text
        return f"[{line.stream if line.rank is None else f'rank{line.rank}'}] {line.text}"


def say(text: str, showing: Showing | None = None) -> None:
    """Tell the user something of ours, on stderr."""
    if showing is not None:
        showing.pause()
    print(f"gpulayer: {harmless(text, lines=True)}", file=sys.stderr, flush=True)
