"""The options that ``run``, ``launch`` and ``call`` share, as the fields of a job spec."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any, TypeVar, cast, get_args

import click

from gpulayer import settings
from gpulayer.cli.output import Form
from gpulayer.cli.submission import Stay
from gpulayer.client import environment, requirements
from gpulayer.client.options import default_target
from gpulayer.spec.resources import Target

TARGETS = get_args(Target)
F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--name", help="A name to find the job by."),
    click.option("--gpus", type=click.IntRange(min=0), default=0, help="CUDA devices on each worker."),
    click.option("--env", "env", multiple=True, metavar="NAME=VALUE", help="Set a variable in the job; may be given again."),
    click.option("--env-file", type=click.Path(exists=True, dir_okay=False), help="Set the variables of a dotenv file."),
    click.option("--forward-env", multiple=True, metavar="PATTERN", help="Set your own variables of that name (WANDB_*)."),
    click.option("--secret", "secrets", multiple=True, metavar="NAME", help="Set a variable to a secret of the plane."),
    click.option(
        "--input", "inputs", multiple=True, metavar="URI=PATH", help="Put a file, folder or URL into the input folder."
    ),
    click.option(
        "--requirement", "asked", multiple=True, metavar="REQ", help="A package that the job's Python has; as pip reads it."
    ),
    click.option(
        "--requirements-file", type=click.Path(exists=True, dir_okay=False), help="A file of such lines, or a pylock.toml."
    ),
    click.option("--target", type=click.Choice(TARGETS), help="Where it runs: local here, remote where GPULAYER_URL is set."),
    click.option("--timeout", "timeout_s", type=float, metavar="SECONDS", help="End the job after so long a run."),
    click.option("--queue", is_flag=True, help="Wait when no worker could ever run it, instead of failing at once."),
    click.option("--source", type=click.Path(exists=True, file_okay=False), help="The folder that travels with the job."),
    click.option("--detach", is_flag=True, help="Print the job's id and leave it to run."),
    click.option(
        "--dry-run", is_flag=True, help="Say whether and where it could run, and submit nothing; 1 when it never could."
    ),
    click.option("-v", "--verbose", is_flag=True, help="Show what torchrun says of the job as well."),
    click.option("--json", "as_json", is_flag=True, help="With --dry-run: print the answer as JSON."),
)


def with_job_options(command: F) -> F:
    """Give a command the options that ``fields`` reads, ``source``, and ``stay``."""

    @functools.wraps(command)
    def staying(*args: Any, detach: bool, dry_run: bool, as_json: bool, verbose: bool, **options: Any) -> Any:
        if as_json and not dry_run:
            raise click.UsageError("--json is for --dry-run; of a job that runs, gpulayer jobs show ID --json tells all.")
        stay = Stay(detach, dry_run, Form.JSON if as_json else Form.TABLE, verbose)
        return command(*args, stay=stay, **options)

    made: Any = staying
    for option in reversed(_OPTIONS):
        made = option(made)
    return cast(F, made)


def fields(
    *,
    name: str | None,
    gpus: int,
    env: tuple[str, ...],
    env_file: str | None,
    forward_env: tuple[str, ...],
    secrets: tuple[str, ...],
    inputs: tuple[str, ...],
    asked: tuple[str, ...],
    requirements_file: str | None,
    target: Target | None,
    timeout_s: float | None,
    queue: bool,
) -> dict[str, Any]:
    """Return what the options say, as fields common to all job specs."""
    pairs = dict(map(_pair, env))
    return {
        "name": name,
        "env": environment.gather(os.environ, env=pairs, env_file=env_file, forward_env=forward_env),
        "forward_env": forward_env,
        "secrets": secrets,
        "inputs": tuple(map(_input, inputs)),
        "requirements": requirements.gather(asked, requirements_file),
        "placement": {"target": target or default_target(settings.read())},
        "timeout_s": timeout_s,
        "on_unschedulable": "queue" if queue else "fail",
        "resources": {"accelerator": "cuda", "gpu_count": gpus} if gpus else {},
    }


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise click.BadParameter(f"{text!r} isn't NAME=VALUE.", param_hint="--env")
    return name, value


def _input(text: str) -> dict[str, str]:
    uri, equals, path = text.rpartition("=")
    if not equals or not uri or not path:
        raise click.BadParameter(f"{text!r} isn't URI=PATH.", param_hint="--input")
    return {"uri": uri, "path": path}
