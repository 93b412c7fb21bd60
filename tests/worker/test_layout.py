"""Where the folders of a task lie, and what is left of them."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest

from gpulayer.spec.job import CommandJob
from gpulayer.spec.records import Order
from gpulayer.worker import layout
from gpulayer.worker.layout import TaskFolders

JOB = "job-0123456789ab"


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of this user for names that are short enough, in place of the one that all processes share."""
    folder = Path(tempfile.mkdtemp(prefix="gpl-", dir="/tmp"))
    monkeypatch.setattr(layout, "SHORT", folder)
    return folder


def made(home: Path, attempt: int = 1) -> TaskFolders:
    order = Order(
        job_id=JOB, attempt=attempt, node_rank=0, spec=CommandJob(command=("true",)), procs_per_worker=1, num_workers=1
    )
    where = layout.folders(home, home, order)
    where.make()
    return where


def test_a_tmpdir_is_the_tasks_own_where_its_path_is_short_enough(short: Path) -> None:
    home = short / "h"
    where = made(home)
    assert where.tmp == where.scratch
    where.remove()
    assert not where.root.exists()
    shutil.rmtree(short)


def test_behind_a_long_path_it_is_reached_by_a_short_name_and_nothing_is_left(short: Path, tmp_path: Path) -> None:
    where = made(tmp_path / ("long" * 30))
    (where.tmp / "made").touch()
    assert (where.tmp.parent, len(str(where.tmp)) < 60) == (short, True)
    assert (where.scratch / "made").exists()
    where.remove()
    assert list(short.iterdir()) == []
    short.rmdir()


def test_the_short_name_of_a_task_whose_folders_are_gone_goes_with_the_next_that_is_made(short: Path, tmp_path: Path) -> None:
    killed = made(tmp_path / ("gone" * 30))
    shutil.rmtree(killed.root)
    living = made(tmp_path / ("here" * 30))
    assert list(short.iterdir()) == [living.tmp]
    again = made(tmp_path / ("here" * 30))
    assert again.tmp.resolve() == living.scratch.resolve()
    again.remove()
    short.rmdir()
