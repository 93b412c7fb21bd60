"""Follows a job that a command submitted: its lines on stdout, our words on stderr, Ctrl-C passed on."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import click

from gpulayer.cli.job_facts import stands, took
from gpulayer.client.interrupts import Interrupts
from gpulayer.logs.render import Renderer
from gpulayer.plane import Plane
from gpulayer.spec.logs import LogLine
from gpulayer.spec.news import Cursor, News
from gpulayer.spec.records import JobRecord

LOOK_S = 0.25
"""How long one look for news may take: a Ctrl-C is acted on after it."""


def follow_to_end(plane: Plane, job_id: str) -> tuple[JobRecord, bool]:
    """Print a job's lines until it has ended; return it, and whether it was interrupted here.

    One Ctrl-C cancels it and goes on following, a second kills it.
    """
    said, heard = "", 0
    news = plane.news(job_id, Cursor())
    with Interrupts() as interrupts:
        while True:
            print_lines(news.lines)
            said = say_where_it_stands(news, said)
            if news.job.state.terminal and not news.lines:
                return news.job, heard > 0
            if interrupts.count > heard:
                heard = interrupts.count
                say("stopping the job; Ctrl-C again kills it" if heard == 1 else "killing the job")
                plane.cancel(job_id, kill=heard > 1)
            news = plane.news(job_id, news.cursor, timeout_s=LOOK_S)


def print_lines(lines: Iterable[LogLine]) -> None:
    """Print what the job printed; what torchrun's agent said of it is ours to tell, so it goes to stderr."""
    renderer = Renderer.on(sys.stdout)
    for line in lines:
        click.echo(renderer.line(line), err=line.stream == "agent")


def say_where_it_stands(news: News, said: str) -> str:
    """Say on stderr where the job stands, once for each change; return what was said last."""
    job = news.job
    words = f"{job.id} {stands(job)}"
    if job.state.terminal:
        words += f" after {took(job)}" if took(job) else ""
        words += f": {job.sentence}" if job.sentence else ""
    elif job.why:
        words += ": " + "; ".join(job.why)
    if words != said:
        say(words)
    return words


def say(words: str) -> None:
    click.echo(f"gpulayer: {words}", err=True)
