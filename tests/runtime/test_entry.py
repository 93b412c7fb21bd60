"""What a job's script is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpulayer.runtime import entry


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work" / "abs" / "tmp").mkdir(parents=True)
    (tmp_path / "work" / "sub").mkdir()
    return tmp_path / "work"


def test_a_script_whose_caller_stood_elsewhere_has_its_whole_path(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(work / "abs" / "tmp")
    named = entry.straight(entry.parse(["../../train.py", "--lr", "1"]), str(work))
    assert (named.target, named.args) == (f"{work}/train.py", ("--lr", "1"))


@pytest.mark.parametrize("words", [["../train.py"], ["-m", "pkg.mod"]])
def test_other_names_stay_as_they_were_typed(work: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    monkeypatch.chdir(work / "sub")
    assert entry.straight(entry.parse(words), str(work)) == entry.parse(words)
