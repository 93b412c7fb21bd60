"""The front of the command line: light to start, errors as sentences, exit codes as promised."""

from __future__ import annotations

import json
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from gpulayer import errors
from gpulayer.cli.main import COMMANDS, Front, command

HEAVY = {"torch", "lightning", "pytorch_lightning", "sqlalchemy", "alembic", "fsspec", "httpx", "rich", "pydantic"}


@pytest.mark.parametrize("arguments", [["--help"], ["version"], ["version", "--json"]])
def test_it_starts_without_anything_heavy(arguments: list[str]) -> None:
    program = (
        "import sys\nfrom gpulayer.cli.main import main\n"
        f"sys.argv = ['gpulayer', *{arguments!r}]\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "print(*{name.split('.')[0] for name in sys.modules}, file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert not HEAVY & set(done.stderr.split())
    assert "gpulayer" in done.stdout


def test_python_m_is_the_same_program() -> None:
    done = subprocess.run([sys.executable, "-m", "gpulayer", "--help"], capture_output=True, text=True, timeout=60, check=True)
    assert all(name in done.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str) -> None:
    done = CliRunner().invoke(command, [name, "--help"])
    assert done.exit_code == 0
    assert "Usage: gpulayer" in done.output


def test_version_says_what_is_installed() -> None:
    told = json.loads(CliRunner().invoke(command, ["version", "--json"]).output)
    assert told["gpulayer"]
    assert told["torch"]
    assert told["python"].startswith("3.")


def front_that(raises: BaseException) -> Front:
    """A front whose only command raises."""

    def fail() -> None:
        raise raises

    class Failing(Front):
        def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
            return click.Command("fail", callback=fail)

    return Failing("gpulayer")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.JobNotFound("There is no job job-1."), 2),
        (errors.EntrypointMissing("There is no train.py."), 2),
        (errors.HomeUnwritable("/x can't be written to."), 1),
        (errors.Unschedulable("No worker has a GPU."), 1),
    ],
)
def test_our_errors_are_a_sentence_and_the_next_step(error: errors.GPULayerError, code: int) -> None:
    done = CliRunner().invoke(front_that(error), ["fail"])
    assert done.exit_code == code
    assert done.stderr == f"Error: {error.sentence}\n{error.next_step}\n"


def test_ctrl_c_is_130() -> None:
    assert CliRunner().invoke(front_that(KeyboardInterrupt()), ["fail"]).exit_code == 130


def test_an_unknown_command_is_wrong_use() -> None:
    assert CliRunner().invoke(command, ["nonsense"]).exit_code == 2
