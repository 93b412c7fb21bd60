"""The files of tests, between a rank's folder and the job's place of the caller's."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from gpulayer.strategies.rank_tests import RankTests


@pytest.fixture
def known(tmp_path: Path) -> RankTests:
    """A rank that has begun one test, which has a note."""
    for name in ("own", "shared", "callers"):
        (tmp_path / name / "test_a0").mkdir(parents=True)
    (tmp_path / "own" / "test_a0" / "note.txt").write_text("mine")
    return RankTests(
        None, tmp_path / "own", tmp_path / "shared", tmp_path / "callers", ("test_a0/out/x.ckpt", "test_b0/x.ckpt")
    )


def test_what_a_rank_writes_in_a_call_goes_to_the_job(known: RankTests) -> None:
    began = os.stat(known.own / "test_a0" / "note.txt").st_ctime + 0.001
    inside = known.own / "test_a0" / "out" / "rank1.txt"
    inside.parent.mkdir()
    while not inside.exists() or inside.stat().st_ctime < began:  # the kernel's clock ticks
        inside.unlink(missing_ok=True)
        inside.write_text("from the call")
    known.give(began)
    assert [path.name for path in known.shared.rglob("*") if path.is_file()] == ["rank1.txt"]


def test_what_a_call_left_appears_and_what_came_later_does_not(known: RankTests) -> None:
    left = known.shared / "test_a0" / "out" / "x.ckpt"
    left.parent.mkdir()
    left.write_text("left")
    (known.shared / "test_a0" / "note.txt").write_text("another's")
    (known.shared / "test_a0" / "empty").mkdir()
    (known.shared / "test_b0").mkdir()
    (known.shared / "test_b0" / "y.txt").touch()
    known.take(left.stat().st_ctime)
    assert not (known.own / "test_a0" / "out").exists()

    known.take(time.time() + 1)

    assert (known.own / "test_a0" / "out" / "x.ckpt").read_text() == "left"
    assert (known.own / "test_a0" / "note.txt").read_text() == "mine"
    assert sorted(path.name for path in known.own.rglob("*")) == ["note.txt", "out", "test_a0", "x.ckpt"]


def test_what_earlier_jobs_left_appears_in_the_tests_that_have_begun(known: RankTests) -> None:
    for name in known.brought:
        (known.callers / name).parent.mkdir(parents=True, exist_ok=True)
        (known.callers / name).write_text("home")
    known.take_earlier()
    assert (known.own / "test_a0" / "out" / "x.ckpt").read_text() == "home"
    assert not (known.own / "test_b0").exists()
