"""``gpulayer secrets``: values that jobs get by name, and that nobody sees again."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from gpulayer.cli.opened import opened
from gpulayer.cli.output import Form, print_list, with_forms
from gpulayer.errors import InvalidSecret


@click.group()
def command() -> None:
    """Set, list and remove secrets. A job that names one (--secret NAME) has it as an environment variable."""


@command.command(name="set")
@click.argument("name", metavar="NAME")
@click.option(
    "--file", "path", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="The file that holds the value."
)
def set_(name: str, path: Path | None) -> None:
    """Store a secret, in the place of an older one of that name.

    The value comes from --file, from stdin, or is asked for: it is never an argument, which others could see.
    """
    value = _value(name, path)
    with opened() as plane:
        plane.set_secret(name, value)
    click.echo(name)


@command.command()
@with_forms()
def ls(form: Form) -> None:
    """List the names of secrets. No value is ever shown."""
    with opened() as plane:
        found = plane.secret_names()
    nothing = "No secrets yet: gpulayer secrets set NAME stores one."
    print_list(found, form, facts=lambda name: {"name": name}, columns={"NAME": str}, id_key="name", nothing=nothing)


@command.command()
@click.argument("name", metavar="NAME")
def rm(name: str) -> None:
    """Forget a secret. Jobs that run keep what they were given."""
    with opened() as plane:
        plane.remove_secret(name)
    click.echo(name)


def _value(name: str, path: Path | None) -> str:
    if path is None and sys.stdin.isatty():
        return str(click.prompt(f"Value of {name}", hide_input=True, confirmation_prompt=True, err=True))
    try:
        text = sys.stdin.read() if path is None else path.read_text(encoding="utf-8")
    except UnicodeDecodeError as cause:
        raise InvalidSecret(f"The value of {name} is no text.", next_step="Encode it, for example in base64.") from cause
    return text.removesuffix("\n").removesuffix("\r")
