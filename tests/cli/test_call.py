"""What ``gpulayer call`` makes of its arguments, and what job options make of the caller's environment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpulayer.cli.call import _value
from gpulayer.cli.job_options import fields
from gpulayer.client import modules
from tests.cli.conftest import Cli
from tests.cli.test_launch import PLAIN


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1), ("one", "one"), ('"1"', "1"), ("[1, null]", [1, None]), ("NaN", "NaN"), ("-Infinity", "-Infinity"), ("", "")],
)
def test_a_value_is_json_or_the_text_itself(text: str, value: Any) -> None:
    assert _value(text) == value


@pytest.mark.parametrize("given", [("call", "no function"), ("call", "m:f", "--kwarg", "k"), ("call", "m:f", "--kwarg", "1=2")])
def test_what_is_no_call_is_wrong_use(given: tuple[str, ...], cli: Cli, home: Path) -> None:
    cli(*given, exits=2)
    assert not home.exists()


@pytest.mark.parametrize("missing", ["nowhere:f", "pkg.nowhere:f", "nowhere.deep:f"])
def test_a_module_that_no_worker_could_import_is_refused_before_anything_starts(
    missing: str, cli: Cli, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "there.py").write_text("")
    monkeypatch.chdir(tmp_path)
    said = cli("call", missing, exits=2).stderr
    assert f"There is no module {missing.partition(':')[0]} in {tmp_path}" in said
    assert not home.exists()


@pytest.mark.parametrize("module", ["pkg.there", "pkg", "json.decoder", "sys", "torch.nn", "compiled"])
def test_what_lies_in_the_folder_or_is_installed_is_not_refused(module: str, tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "there.py").write_text("")
    (tmp_path / "compiled.cpython-311-x86_64-linux-gnu.so").write_text("")
    modules.check(module, (tmp_path,))


def test_a_package_that_is_installed_from_below_the_folder_is_not_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "src" / "laid_out").mkdir(parents=True)
    monkeypatch.syspath_prepend(str(tmp_path / "src"))
    modules.check("laid_out.deep", (tmp_path,))


def test_the_environment_comes_from_options_file_and_what_is_forwarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LR", "0.1")
    (tmp_path / ".env").write_text("A=file\nB=file\n")
    made = fields(**{**PLAIN, "env": ("A=1",), "env_file": str(tmp_path / ".env"), "forward_env": ("L?",)})
    assert made["env"] == {"A": "1", "B": "file", "LR": "0.1"}


def test_a_job_goes_where_the_plane_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert fields(**PLAIN)["placement"] == {"target": "local"}
    monkeypatch.setenv("GPULAYER_URL", "https://plane")
    assert fields(**PLAIN)["placement"] == {"target": "remote"}
    assert fields(**{**PLAIN, "target": "cloud"})["placement"] == {"target": "cloud"}


def test_the_plane_may_be_named_before_the_verb(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("glt_secret\n")
    said = cli("--url", "http://plane.example", "--token-file", str(tmp_path / "token"), "jobs", "ls", exits=1).stderr
    assert "plain http" in said
    (tmp_path / "token").write_text("\n")
    said = cli("--url", "https://plane.example", "--token-file", str(tmp_path / "token"), "jobs", "ls", exits=1).stderr
    assert f"{tmp_path / 'token'} holds no token: it is empty." in said
    assert json.loads(cli("jobs", "ls", "--json").stdout) == []
