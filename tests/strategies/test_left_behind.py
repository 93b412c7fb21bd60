"""What the caller is told of an exception that came from a machine without its variables and files."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpulayer import plane as planes
from gpulayer.spec.job import CommandJob
from gpulayer.spec.resources import Placement
from gpulayer.strategies import left_behind
from gpulayer.strategies.job_spec import PackedSource, Source

AWAY = CommandJob(command=("x",), placement=Placement(target="remote"), env={"GIVEN": "1"}, secrets=("KEPT",))


@pytest.fixture
def source(tmp_path: Path) -> Source:
    (tmp_path / "project" / "data").mkdir(parents=True)
    (tmp_path / "project" / "data" / "train.csv").touch()
    (tmp_path / "outside.csv").touch()
    return Source(tmp_path / "project", str(tmp_path / "project"))


@pytest.fixture
def packed(home: Path) -> Iterator[PackedSource]:
    opened = planes.open(home)
    left_out = json.dumps([{"path": "data", "rule": ".gitignore: data/", "dir": True, "size": None}]).encode()
    yield PackedSource(opened, "a" * 64, opened.put_blob(left_out).sha256)
    opened.close()


def notes(error: BaseException, source: Source, packed: PackedSource, job: CommandJob = AWAY) -> str:
    left_behind.tell(error, job, source, packed, {"LR": "1", "GIVEN": "1", "KEPT": "1"})
    return "\n".join(getattr(error, "__notes__", []))


def missing(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, "No such file or directory", path)


def test_a_variable_that_is_set_here_is_named_with_the_way_out(source: Source, packed: PackedSource) -> None:
    assert "forward_env=['LR']" in notes(KeyError("LR"), source, packed)


def test_a_file_that_is_named_in_words_alone_is_understood(source: Source, packed: PackedSource) -> None:
    said = FileNotFoundError("[Errno 2] No such file or directory: 'data/train.csv'")
    assert ".gitignore: data/" in notes(said, source, packed)


@pytest.mark.parametrize(
    "error", [KeyError("UNSET"), KeyError("GIVEN"), KeyError("KEPT"), KeyError(3), KeyError(), ValueError("LR")]
)
def test_what_the_environment_does_not_explain_has_no_note(error: Exception, source: Source, packed: PackedSource) -> None:
    assert notes(error, source, packed) == ""


def test_a_file_that_a_rule_left_out_is_named_with_the_rule(source: Source, packed: PackedSource) -> None:
    said = notes(missing("data/train.csv"), source, packed)
    assert ".gitignore: data/" in said
    assert "!/data/train.csv" in said
    assert "inputs=" in said


def test_a_file_outside_of_the_source_is_named(source: Source, packed: PackedSource) -> None:
    assert "outside of the source folder" in notes(missing("../outside.csv"), source, packed)


@pytest.mark.parametrize("path", ["nowhere.csv", "/nowhere/at/all.csv"])
def test_a_file_that_is_not_here_either_has_no_note(path: str, source: Source, packed: PackedSource) -> None:
    assert notes(missing(path), source, packed) == ""


def test_a_local_job_lacks_nothing_of_the_callers(source: Source, packed: PackedSource) -> None:
    here = AWAY.model_copy(update={"placement": Placement()})
    assert notes(KeyError("LR"), source, packed, here) == ""
