"""The options that ``run`` and ``launch`` share, as the fields of a job spec."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--name", help="A name to find the job by."),
    click.option("--gpus", type=click.IntRange(min=0), default=0, help="CUDA devices on each worker."),
    click.option("--env", "env", multiple=True, metavar="NAME=VALUE", help="Set a variable in the job; may be given again."),
    click.option("--timeout", "timeout_s", type=float, metavar="SECONDS", help="End the job after so long a run."),
    click.option("--queue", is_flag=True, help="Wait when no worker could ever run it, instead of failing at once."),
    click.option("--source", type=click.Path(exists=True, file_okay=False), help="The folder that travels with the job."),
)


def with_job_options(command: F) -> F:
    """Give a command the options that ``fields`` reads, and ``source``."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def fields(*, name: str | None, gpus: int, env: tuple[str, ...], timeout_s: float | None, queue: bool) -> dict[str, Any]:
    """Return what the options say, as fields common to all job specs."""
    return {
        "name": name,
        "env": dict(map(_pair, env)),
        "timeout_s": timeout_s,
        "on_unschedulable": "queue" if queue else "fail",
        "resources": {"accelerator": "cuda", "gpu_count": gpus} if gpus else {},
    }


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise click.BadParameter(f"{text!r} isn't NAME=VALUE.", param_hint="--env")
    return name, value
