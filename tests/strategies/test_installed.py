"""What belongs to the installation, what its commands call, and how Python was told to be."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path
from types import SimpleNamespace

import pytest

import gpulayer
from gpulayer.errors import EntrypointMissing
from gpulayer.strategies import installed, interpreter, script

SCRIPTS = Path(sysconfig.get_path("scripts"))


def test_packages_belong_to_the_installation_wherever_they_lie(tmp_path: Path) -> None:
    assert installed.is_installed(Path(pytest.__file__))
    assert installed.is_installed(Path(sysconfig.get_path("stdlib")) / "pdb.py")
    assert installed.is_installed(tmp_path / "base" / "lib" / "python3.11" / "site-packages" / "pkg" / "__main__.py")
    assert not installed.is_installed(tmp_path / "train.py")


def test_the_script_of_a_command_is_known_by_what_it_calls(tmp_path: Path) -> None:
    assert installed.command(SCRIPTS / "gpulayer") == "gpulayer.cli.main:main"
    assert installed.command(SCRIPTS / "no-such-command") is None
    assert installed.command(tmp_path / "gpulayer") is None


def test_a_command_keeps_its_name_and_arguments() -> None:
    program = script.find(["python", str(SCRIPTS / "pytest"), "-k", ""], SimpleNamespace(), "/")
    assert (program.command or "").startswith(("pytest:", "_pytest."))
    assert program.entrypoint("/work/-", "/work") == f"--console {program.command}"
    assert program.args == ("-k", "")
    assert program.near is None


def test_what_is_installed_and_no_command_is_refused_with_the_way_out() -> None:
    with pytest.raises(EntrypointMissing, match=r"neither a script of a project.*python -m package\.module"):
        script.find(["python", str(Path(sysconfig.get_path("stdlib")) / "pdb.py")], SimpleNamespace(), "/")


def test_the_project_of_a_command_is_above_its_package() -> None:
    from gpulayer.cli import main

    assert installed.project_of(f"{main.__name__}:main") == Path(gpulayer.__file__).parents[1]
    assert installed.project_of("pytest:console_main") is None


def test_folders_that_python_imports_from_are_those_of_the_source(tmp_path: Path) -> None:
    for name in ("src", "lib", "front"):
        (tmp_path / name).mkdir()
    environment = tmp_path / ".venv" / "site-packages"
    environment.mkdir(parents=True)
    stdlib = sysconfig.get_path("stdlib")
    path = [str(tmp_path / "front"), stdlib, str(environment), str(tmp_path / "src"), "/elsewhere", str(tmp_path / "gone")]
    found = installed.import_folders(tmp_path, path, f"{tmp_path}/lib::{tmp_path}/src")
    assert found == ["lib", "src"]


def test_another_python_is_told_to_be_as_this_one() -> None:
    flags = SimpleNamespace(optimize=2, dev_mode=True, utf8_mode=0, no_user_site=0, safe_path=False)
    told = interpreter.variables(flags, ["default", "error::UserWarning", "ignore:a, b"])
    assert told == {"PYTHONOPTIMIZE": "2", "PYTHONDEVMODE": "1", "PYTHONWARNINGS": "default,error::UserWarning"}
    assert interpreter.variables(sys.flags, []).keys() <= {"PYTHONOPTIMIZE", "PYTHONDEVMODE", "PYTHONUTF8", "PYTHONNOUSERSITE"}
