"""``gpulayer up``: workers that stay in this home, in the background."""

from __future__ import annotations

import click

from gpulayer import settings
from gpulayer.cli.opened import opened
from gpulayer.cli.output import Form, print_list, with_forms
from gpulayer.cli.workers import COLUMNS, worker_facts
from gpulayer.worker import kept


@click.command()
@click.option("--workers", "count", type=click.IntRange(min=1), default=1, show_default=True, help="How many should be there.")
@click.option(
    "--idle-timeout", type=click.FloatRange(min=0, min_open=True), metavar="S", help="Each leaves after S idle seconds."
)
@with_forms()
def command(count: int, idle_timeout: float | None, form: Form) -> None:
    """Have workers stay in this home, so that jobs can be left (--detach) with nothing else.

    Starts those that are missing; the ones that are there stay as they are. Jobs that are left run in the environment in which
    this command was typed. `gpulayer down` sends the workers away.
    """
    found = settings.read()
    refuse_url(found)
    with opened() as plane:
        leaving = {each.info.id for each in plane.workers() if each.state == "draining"}
        kept.start(found, count, leaving=leaving, idle_timeout_s=idle_timeout)
        known = {each.info.id: each for each in plane.workers()}
    there = [known[each.worker_id] for each in kept.living(found.home) if each.worker_id in known]
    print_list(there, form, facts=worker_facts, columns=COLUMNS)


def refuse_url(found: settings.Settings) -> None:
    """Refuse a self-hosted plane: others look after its workers."""
    if found.url is not None:
        raise click.UsageError(
            f"up and down are for the workers of GPULAYER_HOME, and {found.url} is named: "
            "`gpulayer worker start` makes this machine a worker of that plane."
        )
