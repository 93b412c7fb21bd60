"""``gpulayer down``: sends away the workers that ``gpulayer up`` started."""

from __future__ import annotations

import signal
from collections.abc import Sequence

import click

from gpulayer import settings
from gpulayer.cli.following import say
from gpulayer.cli.opened import opened
from gpulayer.cli.up import refuse_url
from gpulayer.worker import kept
from gpulayer.worker.kept import Kept

_SOON_S = 2.0


@click.command()
@click.option("--now", "how", flag_value="now", help="Stop what runs, with its grace.")
@click.option("--kill", "how", flag_value="kill", help="Kill what runs.")
def command(how: str | None) -> None:
    """Send away the workers that `gpulayer up` started in this home, each when its tasks are done."""
    found = settings.read()
    refuse_url(found)
    workers = kept.living(found.home)
    if not workers:
        say(f"no worker of gpulayer up is in {found.home}")
        return
    if how is None:
        with opened() as plane:
            for each in plane.workers():
                if each.info.id in {one.worker_id for one in workers}:
                    plane.drain(each.info.id)
    else:
        kept.tell(found.home, workers, signal.SIGUSR1 if how == "now" else signal.SIGQUIT)
    left = kept.await_end(found.home, workers, _SOON_S)
    if left:
        say(_waiting(left, how))
        kept.await_end(found.home, left)
    say("1 worker left" if len(workers) == 1 else f"{len(workers)} workers left")


def _waiting(left: Sequence[Kept], how: str | None) -> str:
    """Say for what those wait that did not leave at once."""
    with opened() as plane:
        ids = {each.worker_id for each in left}
        jobs = {job_id for worker in plane.workers() if worker.info.id in ids for job_id, _, _ in worker.busy}
    sentence = f"waiting for {', '.join(sorted(jobs))} to end" if jobs else f"waiting for {len(left)} to end"
    return sentence if how else f"{sentence}; Ctrl-C leaves them to it, and `gpulayer down --now` stops them"
