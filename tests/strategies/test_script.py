"""Finding the program that a process runs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from gpulayer.errors import EntrypointMissing, ScriptUnavailable
from gpulayer.strategies import script


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["python", "train.py", "--lr", "0"], ("script", "train.py", ("--lr", "0"))),
        (["python", "-u", "-W", "error", "-Xdev", "train.py", "", "--", "-x"], ("script", "train.py", ("", "--", "-x"))),
        (["python", "-m", "pkg.train", "-c", "x.yaml"], ("-m", "pkg.train", ("-c", "x.yaml"))),
        (["python", "-um", "pkg.train", "fit"], ("-m", "pkg.train", ("fit",))),
        (["python", "-mpkg.train"], ("-m", "pkg.train", ())),
        (["python", "-Wignore", "-BX", "dev", "train.py"], ("script", "train.py", ())),
        (["python", "-c", "import x", "a"], ("-c", "import x", ("a",))),
        (["python", "-"], ("stdin", "", ())),
        (["python", "--", "-odd.py", "1"], ("script", "-odd.py", ("1",))),
        (["python"], ("prompt", "", ())),
        (["python", "-i"], ("prompt", "", ())),
    ],
)
def test_the_command_line_of_python_is_read_as_python_does(words: list[str], found: tuple[str, str, tuple[str, ...]]) -> None:
    assert script.read_argv(words) == found


def test_a_script_is_found_and_keeps_its_name_even_after_a_chdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").touch()
    monkeypatch.chdir("/")
    program = script.find(["python", "./code/train.py", "0"], SimpleNamespace(), str(tmp_path))
    assert program.file == tmp_path / "code" / "train.py"
    assert program.entrypoint("/work/code/train.py", "/work") == "./code/train.py"
    assert program.args == ("0",)


def test_an_absolute_script_is_named_from_the_jobs_working_directory(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    program = script.find(["python", str(tmp_path / "train.py")], SimpleNamespace(), "/elsewhere")
    assert program.entrypoint("/work/train.py", "/work/abs/elsewhere") == "../../train.py"


def test_a_module_keeps_its_name_and_knows_where_it_is_imported_from(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "mod.py").touch()
    main = SimpleNamespace(__file__=str(tmp_path / "pkg" / "mod.py"), __spec__=None)
    program = script.find(["python", "-m", "pkg.mod", "a"], main, str(tmp_path))
    assert (program.entrypoint("/work/pkg/mod.py", "/work"), program.package_root) == ("-m pkg.mod", tmp_path)


@pytest.mark.parametrize("words", [["python", "-c", "pass"], ["python", "-"], ["python"]])
def test_a_program_without_a_file_is_refused(words: list[str]) -> None:
    with pytest.raises(ScriptUnavailable, match="no script that the ranks could run"):
        script.find(words, SimpleNamespace(), "/")


def test_a_script_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(EntrypointMissing, match=r"gone\.py is not there"):
        script.find(["python", "gone.py"], SimpleNamespace(), str(tmp_path))
