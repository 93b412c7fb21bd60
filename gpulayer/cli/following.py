"""Follows a job that a command submitted: its lines on stdout, our words on stderr, Ctrl-C passed on."""

from __future__ import annotations

import select
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import cast

import click

from gpulayer.cli.job_facts import stands, took
from gpulayer.client.follow import BEAT_S
from gpulayer.client.interrupts import Interrupts
from gpulayer.client.listening import Listener
from gpulayer.client.silence import Silence
from gpulayer.client.stopping import Stopping, unheard
from gpulayer.logs.harmless import harmless
from gpulayer.logs.render import Renderer
from gpulayer.plane import Plane
from gpulayer.spec.logs import LogLine
from gpulayer.spec.news import Cursor, News
from gpulayer.spec.records import JobRecord
from gpulayer.spec.states import JobState

LASTS_S = 5.0
"""How long ranks of a running job wait for others before that is said."""
_MOST_OF_AGENTS = 200
_SECOND_S = 0.25
"""How soon a second Ctrl-C is heard while a person is asked what the first one meant."""


@dataclass(frozen=True)
class End:
    """How following a job ended: with the job, or (``left``) with a person who lets it go on."""

    job: JobRecord
    interrupted: bool = False
    left: bool = False


def to_end(plane: Plane, job_id: str, *, outlives: bool = False, lines_to_stderr: bool = False, verbose: bool = False) -> End:
    """Print a job's lines until it has ended.

    One Ctrl-C cancels it and goes on following, a second kills it, or leaves it (a ``KeyboardInterrupt``) when the plane has
    not heard the first. Where the plane ``outlives`` this process and a person sits there, the first one asks before.
    ``verbose`` shows what torchrun says of a job as well.
    """
    heard, cancelled, cursor = 0, False, Cursor()
    lines, standing = Lines(to_stderr=lines_to_stderr, verbose=verbose), Standing()
    listener, silence = Listener(plane, job_id), Silence(plane, say)
    stopping = Stopping(plane, job_id, listener.wake)
    with Interrupts() as interrupts:
        interrupts.on_interrupt = listener.wake
        first = plane.news(job_id, cursor)
        news, job = cast("News | None", first), first.job
        while True:
            if news is not None:
                cursor, job = news.cursor, news.job
                lines.show(news.lines)
                if job.state.terminal and not news.lines:
                    lines.end(job)
                    standing.show(job)
                    return End(job, interrupted=cancelled)
            standing.show(job)
            silence.look()
            stopping.check()
            if interrupts.count > heard:
                wish = _ask(interrupts) if outlives and not cancelled else "cancel"
                heard = interrupts.count
                if wish == "leave":
                    return End(plane.job(job_id), interrupted=True, left=True)
                if wish == "go on":
                    heard = interrupts.count = 0
                elif not stopping.is_heard():
                    say(unheard(job_id))
                    raise KeyboardInterrupt
                else:
                    say("stopping the job; Ctrl-C again kills it" if heard == 1 else "killing the job")
                    stopping.ask(kill=heard > 1)
                    cancelled = True
            news = plane.news(job_id, cursor) if job.state.terminal else listener.hear(cursor, BEAT_S)


def _ask(interrupts: Interrupts) -> str:
    """Ask what a Ctrl-C meant; a second one means the end of the job, as does one where nobody can answer."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return "cancel"
    wishes = {"c": "cancel", "l": "leave", "g": "go on"}
    while True:
        click.echo("gpulayer: [c]ancel the job, [l]eave it running, or [g]o on following? ", err=True, nl=False)
        while not select.select([sys.stdin], [], [], _SECOND_S)[0]:
            if interrupts.count > 1:
                click.echo(err=True)
                return "cancel"
        answer = sys.stdin.readline()
        if not answer:
            return "cancel"
        if (wish := wishes.get(answer.strip().lower()[:1])) is not None:
            return wish


class Lines:
    """Prints what a job printed; what torchrun's agent says is left to the log, unless a job fails without another line."""

    def __init__(self, *, to_stderr: bool = False, verbose: bool = False) -> None:
        self._to_stderr = to_stderr
        self._verbose = verbose
        self._renderer = Renderer.on(sys.stdout)
        self._printed = False
        self._of_agents: deque[LogLine] = deque(maxlen=_MOST_OF_AGENTS)

    def show(self, lines: Iterable[LogLine]) -> None:
        for stream, together in groupby(lines, lambda line: line.stream):
            if stream == "agent" and not self._verbose:
                self._of_agents.extend(together)
            else:
                self._print(together, to_stderr=self._to_stderr or stream in ("agent", "prepare"))
                self._printed = self._printed or stream != "prepare"

    def end(self, job: JobRecord) -> None:
        """Print what was kept back of a job that failed without a line of its own."""
        if job.state is JobState.FAILED and not self._printed:
            self._print(self._of_agents, to_stderr=True)

    def _print(self, lines: Iterable[LogLine], *, to_stderr: bool) -> None:
        for line in lines:
            click.echo(self._renderer.line(line), err=to_stderr)


class Standing:
    """Says on stderr where a job stands, once for each change, and for whom its ranks wait once that has lasted."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._said = ""
        self._waits_since: float | None = None

    def show(self, job: JobRecord) -> None:
        words = f"{job.id} {stands(job)}"
        if job.state.terminal:
            words += f" after {took(job)}" if took(job) else ""
            words += f": {job.sentence}" if job.sentence else ""
            words += "".join(f"\n{step}" for step in _next_steps(job))
        elif job.why and self._has_lasted(job):
            words += ": " + "; ".join(job.why)
        if not job.why:
            self._waits_since = None
        if words != self._said:
            say(words)
            self._said = words

    def _has_lasted(self, job: JobRecord) -> bool:
        """Say whether a wait is worth a line: that of a queued job is at once, but ranks always join one after the other."""
        if job.state is JobState.QUEUED:
            return True
        self._waits_since = self._clock() if self._waits_since is None else self._waits_since
        return self._clock() - self._waits_since >= LASTS_S


def _next_steps(job: JobRecord) -> list[str]:
    """Return what a person can do about a job that failed."""
    known = [job.cause.next_step] if job.cause is not None and job.cause.next_step else []
    if job.state in (JobState.SUCCEEDED, JobState.CANCELLED) or any("jobs logs" in step for step in known):
        return known
    return [*known, f"`gpulayer jobs logs {job.id}` shows all that it printed."]


def say(words: str) -> None:
    click.echo(f"gpulayer: {harmless(words, lines=True)}", err=True)
