"""Secrets from the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gpulayer.cli.main import command
from gpulayer.control.server.app import open_home
from tests.cli.conftest import Cli
from tests.control.given import a_command

Told = Callable[..., Any]
VALUE = "correct-horse-battery"


def value_of(home: Path, name: str) -> str:
    plane = open_home(home, "caller")
    try:
        job = plane.submit(a_command(secrets=(name,), on_unschedulable="queue"))
        return plane.secrets_of(job.id)[name]
    finally:
        plane.close()


@pytest.mark.parametrize("given", [VALUE, f"{VALUE}\n", f"{VALUE}\r\n"])
def test_the_value_comes_from_stdin_without_the_last_newline(home: Path, given: str) -> None:
    done = CliRunner().invoke(command, ["secrets", "set", "API_KEY"], input=given)

    assert (done.exit_code, done.output) == (0, "API_KEY\n")
    assert value_of(home, "API_KEY") == VALUE


def test_the_value_comes_from_a_file(cli: Cli, home: Path, tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"{VALUE}\nand-a-second-line\n")
    cli("secrets", "set", "API_KEY", "--file", str(tmp_path / "key"))

    assert value_of(home, "API_KEY") == f"{VALUE}\nand-a-second-line"


def test_names_are_listed_and_no_value_is(cli: Cli, told: Told, tmp_path: Path) -> None:
    assert "secrets set" in cli("secrets", "ls").stderr
    (tmp_path / "key").write_text(VALUE)
    for name in ("B", "A"):
        cli("secrets", "set", name, "--file", str(tmp_path / "key"))

    assert told("secrets", "ls") == [{"name": "A"}, {"name": "B"}]
    assert cli("secrets", "ls", "-q").stdout == "A\nB\n"
    assert cli("secrets", "rm", "A").stdout == "A\n"
    assert told("secrets", "ls") == [{"name": "B"}]


def test_wrong_use_is_told_what_is_right(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "short").write_text("short")
    (tmp_path / "binary").write_bytes(b"\xff\xfe" * 20)

    assert "8 characters" in cli("secrets", "set", "A", "--file", str(tmp_path / "short"), exits=2).output
    assert "base64" in cli("secrets", "set", "A", "--file", str(tmp_path / "binary"), exits=2).output
    assert "secrets ls" in cli("secrets", "rm", "A", exits=2).output


def test_a_job_names_a_secret_and_a_missing_one_is_refused(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "work").mkdir()

    refused = cli("run", "--secret", "API_KEY", "--source", "work", "--", "true", exits=2)

    assert "API_KEY" in refused.output
    assert "secrets set" in refused.output
