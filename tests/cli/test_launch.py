"""What ``gpulayer launch`` and ``gpulayer run`` make of their arguments."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from gpulayer.cli.job_options import fields
from gpulayer.client.places import Place, locate
from gpulayer.client.source import StoredSource
from gpulayer.errors import EntrypointMissing
from tests.cli.conftest import Cli

PLAIN = {
    "name": None,
    "gpus": 0,
    "env": (),
    "env_file": None,
    "forward_env": (),
    "secrets": (),
    "inputs": (),
    "asked": (),
    "requirements_file": None,
    "target": None,
    "timeout_s": None,
    "queue": False,
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    (root / "pyproject.toml").write_text("")
    (root / "src/train.py").write_text("")
    monkeypatch.chdir(root)
    return root


def test_a_script_is_named_from_where_the_person_stands(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert locate("src/train.py", None, module=False) == (Place(project, project), "src/train.py", (project / "src/train.py",))
    monkeypatch.chdir(project / "src")
    place, entry, _ = locate("train.py", None, module=False)
    assert (place, entry) == (Place(project, project / "src"), "train.py")
    assert place.fields(StoredSource("a", "b"))["cwd"] == "src"


def test_from_elsewhere_the_job_starts_at_the_root(project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    place, entry, _ = locate("project/src/train.py", None, module=False)
    assert (place, entry) == (Place(project, project), "src/train.py")


@pytest.mark.parametrize(("given", "module", "entry"), [("pkg.mod", True, "-m pkg.mod"), ("pkg:go", False, "pkg:go")])
def test_modules_and_functions_bring_the_folder_around_the_person(project: Path, given: str, module: bool, entry: str) -> None:
    assert locate(given, None, module=module) == (Place(project, project), entry, ())


def test_a_script_that_is_not_there_is_wrong_use(project: Path, cli: Cli) -> None:
    assert "There is no script nope.py." in cli("launch", "nope.py", exits=2).stderr


def test_a_script_outside_of_the_source_is_refused(project: Path) -> None:
    (project / "other").mkdir()
    with pytest.raises(EntrypointMissing, match="is not below"):
        locate("src/train.py", str(project / "other"), module=False)


def test_options_become_fields() -> None:
    made = fields(**{**PLAIN, "gpus": 2, "env": ("A=1", "B=x=y"), "queue": True})
    assert made["env"] == {"A": "1", "B": "x=y"}
    assert made["resources"] == {"accelerator": "cuda", "gpu_count": 2}
    assert made["on_unschedulable"] == "queue"


def test_an_input_is_a_url_and_where_it_is_put(cli: Cli, project: Path) -> None:
    made = fields(**{**PLAIN, "inputs": ("https://example.org/a?x=1=deep/a", "set=data")})
    assert made["inputs"] == ({"uri": "https://example.org/a?x=1", "path": "deep/a"}, {"uri": "set", "path": "data"})
    assert "URI=PATH" in cli("run", "--input", "set", "true", exits=2).stderr


def test_an_env_without_a_value_is_wrong_use(cli: Cli, project: Path) -> None:
    with pytest.raises(click.BadParameter, match="NAME=VALUE"):
        fields(**{**PLAIN, "env": ("A",)})
    assert "NAME=VALUE" in cli("run", "--env", "A", "true", exits=2).stderr


def test_a_command_is_needed(cli: Cli) -> None:
    assert "Missing argument" in cli("run", exits=2).stderr


def test_what_cannot_be_asked_for_is_refused_before_anything_starts(home: Path, cli: Cli, project: Path) -> None:
    assert "gpu_count" in cli("launch", "src/train.py", "--gpus", "1", "--procs-per-worker", "2", exits=2).stderr
    assert not home.exists()
