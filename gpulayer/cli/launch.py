"""``gpulayer launch``: a script under torchrun on one or several workers, as a job."""

from __future__ import annotations

from typing import Any

import click

from gpulayer.cli.job_options import fields, with_job_options
from gpulayer.cli.submission import Stay, run
from gpulayer.client.places import locate
from gpulayer.spec.job import DistributedJob, Processes


class Count(click.ParamType[Processes]):
    """A number above zero, or ``auto``."""

    name = "count"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Processes:
        return "auto" if value == "auto" else int(click.IntRange(min=1).convert(value, param, ctx))


@click.command()
@click.argument("entrypoint", metavar="SCRIPT")
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@click.option("-m", "--module", is_flag=True, help="SCRIPT names a module, as in python -m.")
@click.option("--num-workers", type=click.IntRange(min=1), default=1, show_default=True, help="Workers (nodes).")
@click.option(
    "--procs-per-worker",
    type=Count(),
    metavar="N|auto",
    default="1",
    show_default=True,
    help="Processes on each worker; auto is one for each GPU that all can give.",
)
@click.option("--backend", type=click.Choice(["auto", "gloo", "nccl"]), default="auto", show_default=True)
@with_job_options
def command(
    entrypoint: str,
    args: tuple[str, ...],
    module: bool,
    num_workers: int,
    procs_per_worker: Processes,
    backend: str,
    source: str | None,
    stay: Stay,
    **common: Any,
) -> None:
    """Run a script under torchrun on one or several workers, as a job, and follow it.

    SCRIPT is a file, MODULE:FUNCTION, or with -m a module. Its own arguments follow after --. Lines are printed on
    stdout as [rank3] ...; what GPUlayer says goes to stderr.
    """

    place, entry, always = locate(entrypoint, source, module=module)

    def make(brought: dict[str, Any]) -> DistributedJob:
        return DistributedJob(
            entrypoint=entry,
            args=args,
            num_workers=num_workers,
            procs_per_worker=procs_per_worker,
            backend=backend,
            **brought,
            **fields(**common),
        )

    run(place, make, stay, always=always)
