"""Follows a job that a command submitted: its lines on stdout, our words on stderr, Ctrl-C passed on."""

from __future__ import annotations

import select
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

import click

from gpulayer.cli.job_facts import stands, took
from gpulayer.client.interrupts import Interrupts
from gpulayer.client.listening import Listener
from gpulayer.logs.render import Renderer
from gpulayer.plane import Plane
from gpulayer.spec.logs import LogLine
from gpulayer.spec.news import Cursor, News
from gpulayer.spec.records import JobRecord

_SECOND_S = 0.25
"""How soon a second Ctrl-C is heard while a person is asked what the first one meant."""


@dataclass(frozen=True)
class End:
    """How following a job ended: with the job, or (``left``) with a person who lets it go on."""

    job: JobRecord
    interrupted: bool = False
    left: bool = False


def to_end(plane: Plane, job_id: str, *, outlives: bool = False, lines_to_stderr: bool = False) -> End:
    """Print a job's lines until it has ended.

    One Ctrl-C cancels it and goes on following, a second kills it. Where the plane ``outlives`` this process and a person
    sits there, the first one asks before.
    """
    said, heard, cancelled, cursor = "", 0, False, Cursor()
    listener = Listener(plane, job_id)
    with Interrupts() as interrupts:
        interrupts.on_interrupt = listener.wake
        news: News | None = plane.news(job_id, cursor)
        while True:
            if news is not None:
                cursor = news.cursor
                print_lines(news.lines, to_stderr=lines_to_stderr)
                said = say_where_it_stands(news, said)
                if news.job.state.terminal and not news.lines:
                    return End(news.job, interrupted=cancelled)
            if interrupts.count > heard:
                wish = _ask(interrupts) if outlives and not cancelled else "cancel"
                heard = interrupts.count
                if wish == "leave":
                    return End(plane.job(job_id), interrupted=True, left=True)
                if wish == "go on":
                    heard = interrupts.count = 0
                else:
                    say("stopping the job; Ctrl-C again kills it" if heard == 1 else "killing the job")
                    plane.cancel(job_id, kill=heard > 1)
                    cancelled = True
            ended = news is not None and news.job.state.terminal
            news = plane.news(job_id, cursor) if ended else listener.hear(cursor)


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


def print_lines(lines: Iterable[LogLine], *, to_stderr: bool = False) -> None:
    """Print what the job printed; what torchrun's agent said of it is ours to tell, so it goes to stderr."""
    renderer = Renderer.on(sys.stdout)
    for err, together in groupby(lines, lambda line: to_stderr or line.stream == "agent"):
        click.echo("\n".join(map(renderer.line, together)), err=err)


def say_where_it_stands(news: News, said: str) -> str:
    """Say on stderr where the job stands, once for each change; return what was said last."""
    job = news.job
    words = f"{job.id} {stands(job)}"
    if job.state.terminal:
        words += f" after {took(job)}" if took(job) else ""
        words += f": {job.sentence}" if job.sentence else ""
        words += f"\n{job.cause.next_step}" if job.cause is not None and job.cause.next_step else ""
    elif job.why:
        words += ": " + "; ".join(job.why)
    if words != said:
        say(words)
    return words


def say(words: str) -> None:
    click.echo(f"gpulayer: {words}", err=True)
