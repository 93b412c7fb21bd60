"""``gpulayer version``: what is installed, without importing any of it."""

from __future__ import annotations

import platform
from importlib import metadata

import click

from gpulayer.cli.output import Form, print_one, with_forms

PACKAGES = ("gpulayer", "torch", "lightning", "pytorch-lightning", "torchmetrics")


def versions() -> dict[str, str | None]:
    """Map Python and the packages that matter to their installed versions, None where one isn't there."""
    found: dict[str, str | None] = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return {"gpulayer": found.pop("gpulayer"), "python": platform.python_version(), **found}


@click.command()
@with_forms(quiet=False)
def command(form: Form) -> None:
    """Print the versions in use."""
    print_one(versions(), form)
