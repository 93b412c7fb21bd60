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


def test_a_script_is_named_relative_to_the_root_even_after_a_chdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").touch()
    monkeypatch.chdir("/")
    program = script.find(["python", "code/train.py", "0"], SimpleNamespace(), str(tmp_path))
    assert program.entrypoint(tmp_path) == "code/train.py"
    assert program.args == ("0",)


def test_a_script_outside_of_the_source_folder_is_refused_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    program = script.find(["python", "train.py"], SimpleNamespace(), str(tmp_path))
    with pytest.raises(EntrypointMissing, match="source_dir"):
        program.entrypoint(tmp_path / "elsewhere")


def test_a_module_keeps_its_name(tmp_path: Path) -> None:
    (tmp_path / "mod.py").touch()
    main = SimpleNamespace(__file__=str(tmp_path / "mod.py"), __spec__=None)
    program = script.find(["python", "-m", "mod", "a"], main, str(tmp_path))
    assert (program.entrypoint(tmp_path), program.file) == ("-m mod", tmp_path / "mod.py")


@pytest.mark.parametrize("words", [["python", "-c", "pass"], ["python", "-"], ["python"]])
def test_a_program_without_a_file_is_refused(words: list[str]) -> None:
    with pytest.raises(ScriptUnavailable, match="no script that the ranks could run"):
        script.find(words, SimpleNamespace(), "/")


def test_a_script_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(EntrypointMissing, match=r"gone\.py is not there"):
        script.find(["python", "gone.py"], SimpleNamespace(), str(tmp_path))


