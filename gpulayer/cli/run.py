"""``gpulayer run``: a command as a job on one worker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gpulayer.cli.job_options import fields, with_job_options
from gpulayer.cli.submission import Stay, run
from gpulayer.client.places import place_of
from gpulayer.spec.job import CommandJob


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("argv", metavar="[--] COMMAND [ARGS]...", nargs=-1, required=True, type=click.UNPROCESSED)
@with_job_options
def command(argv: tuple[str, ...], source: str | None, stay: Stay, **common: Any) -> None:
    """Run a command as a job on one worker, and follow it.

    The folder around you travels with it, and files that it writes there are the job's artifacts. Its output goes to
    stdout, what GPUlayer says to stderr.
    """

    def make(brought: dict[str, Any]) -> CommandJob:
        return CommandJob(command=argv, **brought, **fields(**common))

    run(place_of(Path.cwd() / "-", source), make, stay)
