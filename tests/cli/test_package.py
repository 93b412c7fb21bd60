"""``gpulayer package``: every file of a source folder, with the rule that decided."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli

Told = Callable[..., Any]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a script, some data that is kept at home, and a checkpoint."""
    root = tmp_path / "project"
    (root / "data").mkdir(parents=True)
    (root / "pyproject.toml").write_text("")
    (root / "train.py").write_text("print('x')\n")
    (root / "data/big.bin").write_bytes(b"0" * 1000)
    (root / "old.ckpt").write_bytes(b"0")
    (root / ".gpulayerignore").write_text("data/\n")
    monkeypatch.chdir(root)
    return root


def test_explain_names_every_path_and_rule(project: Path, cli: Cli, told: Told) -> None:
    rows = {row["path"]: row for row in told("package", "--explain")}
    assert {path for path, row in rows.items() if row["sent"]} >= {"train.py", "pyproject.toml"}
    assert rows["data/"]["sent"] is False
    assert ".gpulayerignore" in rows["data/"]["rule"]
    assert rows["old.ckpt"]["sent"] is False
    assert "train.py" in cli("package", "--explain").stdout


def test_the_summary_says_what_travels_from_where(project: Path, cli: Cli, told: Told) -> None:
    assert told("package")["root"] == str(project)
    assert str(project) in cli("package").stdout


def test_a_script_brings_the_project_around_it(project: Path, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    assert told("package", str(project / "train.py"))["root"] == str(project)
    assert told("package", str(project / "train.py"), "--source", str(project / "data"))["root"] == str(project / "data")
