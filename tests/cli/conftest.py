"""A home with a played worker, and the command line on it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from gpulayer.cli.main import command
from tests.cli.played import PlayedWorker

Cli = Callable[..., Result]


@pytest.fixture
def worker(home: Path) -> Iterator[PlayedWorker]:
    played = PlayedWorker(home)
    yield played
    played.close()


@pytest.fixture
def cli() -> Cli:
    """Run the command line; ``exits`` is the exit code that it must have."""

    def run(*arguments: str, exits: int = 0) -> Result:
        done = CliRunner().invoke(command, list(arguments))
        assert done.exit_code == exits, (done.output, done.exception)
        return done

    return run


@pytest.fixture
def told(cli: Cli) -> Callable[..., Any]:
    """Run the command line with ``--json`` and read what it printed."""

    def run(*arguments: str, exits: int = 0) -> Any:
        return json.loads(cli(*arguments, "--json", exits=exits).stdout)

    return run
