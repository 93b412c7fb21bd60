"""What a shell offers when Tab is pressed: ids of jobs and workers, names of profiles."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click
from click.shell_completion import CompletionItem

from gpulayer import settings
from gpulayer.plane import Plane

MOST = 50


def job_ids(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the newest jobs whose id begins so."""
    return _offered(
        ctx, incomplete, lambda plane: {job.id: f"{job.state} {job.spec.name or ''}" for job in plane.jobs(limit=MOST)}
    )


def worker_ids(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the workers whose id begins so."""
    return _offered(ctx, incomplete, lambda plane: {each.info.id: each.info.name for each in plane.workers()})


def profile_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the profiles whose name begins so."""
    try:
        return [CompletionItem(name) for name in settings.profiles(os.environ) if name.startswith(incomplete)]
    except Exception:
        return []


def _offered(ctx: click.Context, incomplete: str, ask: Callable[[Plane], dict[str, str]]) -> list[CompletionItem]:
    """Offer what a plane answers; nothing where it doesn't, for a traceback would be typed into the person's command."""
    try:
        with _opened(ctx) as plane:
            found = ask(plane) if plane is not None else {}
    except Exception:
        return []
    return [CompletionItem(each, help=words.strip()) for each, words in found.items() if each.startswith(incomplete)]


@contextmanager
def _opened(ctx: click.Context) -> Iterator[Plane | None]:
    """Open the plane that the command line so far names; none where that would make a home."""
    from gpulayer.cli.opened import opened

    said = {name: ctx.find_root().params.get(name) for name in ("profile", "url", "token_file", "ca_cert")}
    with settings.saying(**said):
        found = settings.read()
        if found.url is None and not found.home.is_dir():
            yield None
            return
        with opened() as plane:
            yield plane
