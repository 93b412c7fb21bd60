"""The cells of a notebook, as a script that ranks can run."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpulayer.errors import ScriptUnavailable
from gpulayer.runtime import cells
from gpulayer.strategies import notebook, script


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A shell of IPython's own, with cells that it ran."""
    from IPython.core.interactiveshell import InteractiveShell

    found = InteractiveShell()
    found.history_manager.enabled = False
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: found)
    monkeypatch.setattr(notebook, "_SEEN", notebook._Seen())
    notebook.watch()
    yield found
    found.restore_sys_module_state()


def test_what_was_run_is_the_script_with_magics_that_do_nothing(
    shell: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shell.run_cell("x = 1\n!true\n%config Completer", store_history=True)
    shell.run_cell("def twice(value):\n    return 2 * value", store_history=True)
    shell.run_cell("%%time\ny = twice(x)", store_history=True)
    shell.run_cell("%time w = twice(y)", store_history=True)
    shell.run_cell("files = !ls\nz = 5\nraise KeyError('only here')", store_history=True)
    path, digest = notebook.write(str(tmp_path))
    capsys.readouterr()

    found = runpy.run_path(str(path), run_name="__main__")

    assert [found[name] for name in "xywz"] == [1, 2, 4, 5]
    assert "cell 5 raised KeyError" in capsys.readouterr().err
    assert notebook.write(str(tmp_path)) == (path, digest)
    shell.run_cell("more = 1", store_history=True)
    assert notebook.write(str(tmp_path))[1] != digest


def test_a_cell_that_ended_well_in_the_notebook_must_end_well_in_the_job() -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        cells.run([(1, "x = 1\n", True), (2, "y = x / 0\n", True)], {})
    assert "In [2]" in str(raised.traceback[-1].path)


def test_the_program_of_a_notebook_is_named_after_it(shell: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JPY_SESSION_NAME", "/home/me/My study.ipynb")
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace())  # type: ignore[arg-type]
    found = script.current(str(tmp_path))
    assert (found.file, found.module, found.word) == (tmp_path / ".My study.cells.py", None, ".My study.cells.py")
    assert found.text


def test_a_script_that_ipython_runs_is_the_program_itself(shell: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").touch()
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(__file__="train.py"))  # type: ignore[arg-type]
    monkeypatch.setattr(sys, "argv", ["train.py", "--fast"])
    found = script.current(str(tmp_path))
    assert (found.file, found.args, found.text) == (tmp_path / "train.py", ("--fast",), "")


def test_a_folder_that_cant_be_written_to_is_named(shell: Any) -> None:
    with pytest.raises(ScriptUnavailable, match="/proc"):
        notebook.write("/proc")


def test_without_ipython_there_are_no_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert notebook.shell() is None
