"""A checkpoint that only the caller has travels with the go, and counts where the job has not written it itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpulayer import plane as planes
from gpulayer.plane import Plane
from gpulayer.spec.files import inside
from gpulayer.strategies import adoption, going
from gpulayer.strategies.call_settings import CallSettings
from gpulayer.strategies.paths import between


@pytest.fixture
def plane(home: Path) -> Iterator[Plane]:
    opened = planes.open(home)
    yield opened
    opened.close()


def test_a_file_is_sent_by_its_name_and_a_folder_with_its_files(plane: Plane, tmp_path: Path) -> None:
    sharded = tmp_path / "sharded.ckpt"
    (sharded / "deep").mkdir(parents=True)
    (sharded / "deep" / "a").write_bytes(b"a")
    (sharded / "meta").write_bytes(b"m")
    assert [entry.path for entry in going._checkpoint(str(sharded), plane)] == ["sharded.ckpt/deep/a", "sharded.ckpt/meta"]
    (entry,) = going._checkpoint(str(sharded / "meta"), plane)
    assert (entry.path, plane.has_blob(entry.blob.sha256)) == ("meta", True)


@pytest.mark.parametrize("path", [None, "s3://bucket/x.ckpt", "/nowhere/x.ckpt"])
def test_what_is_not_here_is_not_sent(plane: Plane, path: str | None) -> None:
    assert going._checkpoint(path, plane) == ()


def test_ranks_load_their_own_file_else_the_one_sent_and_never_a_namesake(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "namesake.ckpt").touch()
    paths = between("/root", "/root", str(tmp_path / "work"))
    settings = CallSettings(ckpt_path=str(tmp_path / "namesake.ckpt"))
    asked = str(tmp_path / "namesake.ckpt")
    assert adoption.checkpoint_path(asked, settings, paths, "/sent/namesake.ckpt") == "/sent/namesake.ckpt"
    written = Path(paths.to_job(asked))
    written.parent.mkdir(parents=True)
    written.touch()
    assert adoption.checkpoint_path(asked, settings, paths, "/sent/namesake.ckpt") == str(written)


def test_no_path_leaves_the_folder_that_it_is_put_into() -> None:
    assert str(inside("../../etc/passwd")) == "etc/passwd"
    assert str(inside("/etc/passwd")) == "etc/passwd"
    assert str(inside("a/../b//c")) == "b/c"
