"""``gpulayer call``: a function as a job on one worker; JSON in, JSON out."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any, NoReturn

import click

from gpulayer.cli import artifacts
from gpulayer.cli.job_options import fields, with_job_options
from gpulayer.cli.submission import Stay, run
from gpulayer.client import modules
from gpulayer.client.handles import RESULT
from gpulayer.client.places import place_of
from gpulayer.plane import Plane
from gpulayer.spec.job import FunctionJob
from gpulayer.spec.records import JobRecord


@click.command()
@click.argument("function", metavar="MODULE:FUNCTION")
@click.option("--arg", "args", multiple=True, metavar="VALUE", help="A positional argument; may be given again.")
@click.option("--kwarg", "kwargs", multiple=True, metavar="NAME=VALUE", help="A named argument; may be given again.")
@with_job_options
def command(
    function: str, args: tuple[str, ...], kwargs: tuple[str, ...], source: str | None, stay: Stay, **common: Any
) -> None:
    """Call a function as a job on one worker, and print what it returns as JSON.

    A VALUE is JSON, or else the text itself: 1 is a number, '"1"' and one are texts. The folder around you travels with it.
    What the function prints goes to stderr.
    """
    named = dict(map(_named, kwargs))
    place = place_of(Path.cwd() / "-", source)
    if not any(text.startswith("PYTHONPATH=") for text in common["env"]):
        modules.check(function.partition(":")[0], (place.cwd, place.root))

    def make(brought: dict[str, Any]) -> FunctionJob:
        return FunctionJob(function=function, args=tuple(map(_value, args)), kwargs=named, **brought, **fields(**common))

    run(place, make, stay, result=print_result)


def print_result(plane: Plane, job: JobRecord) -> None:
    """Print what the function returned, as it was written."""
    result = artifacts.exactly(plane.artifacts(job.id), RESULT)
    with plane.open_blob(result.blob.sha256) as opened:
        sys.stdout.flush()
        shutil.copyfileobj(opened, sys.stdout.buffer)
    click.echo()


def _named(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise click.BadParameter(f"{text!r} isn't NAME=VALUE.", param_hint="--kwarg")
    return name, _value(value)


def _value(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_json)
    except ValueError:
        return text


def _no_json(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON")
