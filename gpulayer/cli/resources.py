"""``gpulayer resources``: what this machine offers to jobs."""

from __future__ import annotations

import os

import click

from gpulayer import settings
from gpulayer.cli.output import Form, print_one, with_forms
from gpulayer.worker import addresses, hardware


@click.group()
def command() -> None:
    """Show what this machine offers to jobs."""


@command.command()
@with_forms(quiet=False)
def detect(form: Form) -> None:
    """Show what a worker started here would report."""
    here = settings.read()
    found = hardware.capabilities(here.home, os.environ, addresses.advertised(None, here.url))
    facts = found.model_dump(mode="json")
    shown = facts | {
        "memory_gb": f"{found.memory_gb:.1f}",
        "disk_gb": f"{found.disk_gb:.1f}",
        "frameworks": "\n".join(f"{name} {version}" for name, version in sorted(found.frameworks.items())),
        "devices": "\n".join(f"{device.kind}{device.index} {device.name} {device.uuid}" for device in found.devices) or "none",
        "backends": ", ".join(found.backends),
        "launcher": "torchrun" if found.launcher else "none",
    }
    print_one(facts, form, shown=shown)
