"""A log that is too long for one answer comes in batches, whole and in order."""

from __future__ import annotations

import pytest

from gpulayer.cli.lines import follow_lines
from gpulayer.control.server.app import EmbeddedPlane
from gpulayer.control.store import log_chunks
from gpulayer.spec.logs import LogLine
from gpulayer.spec.news import Cursor
from tests.control.given import a_command, some_lines


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_chunks, "_BATCH_LINES", 4)


def a_job_with_lines(plane: EmbeddedPlane) -> str:
    job = plane.submit(a_command(on_unschedulable="queue"))
    for first in range(0, 30, 3):
        plane.append_lines(job.id, some_lines(job.id, [str(first + n) for n in range(3)], first=first))
    return job.id


def test_news_say_whether_more_lines_are_stored(plane: EmbeddedPlane) -> None:
    job_id = a_job_with_lines(plane)
    lines: list[LogLine] = []
    news = plane.news(job_id, Cursor())
    lines.extend(news.lines)
    batches = 1
    while news.more:
        news = plane.news(job_id, news.cursor)
        lines.extend(news.lines)
        batches += 1
    assert batches == 5
    assert [line.text for line in lines] == [str(n) for n in range(30)]


def test_a_tail_is_that_of_the_whole_log(plane: EmbeddedPlane) -> None:
    job_id = a_job_with_lines(plane)
    plane.cancel(job_id)
    assert [line.text for line in follow_lines(plane, job_id, tail=2)] == ["28", "29"]
    assert [line.text for line in follow_lines(plane, job_id)] == [str(n) for n in range(30)]


@pytest.mark.parametrize("tail", [None, 0, 1, 3, 4, 29, 30, 31, 2**31])
@pytest.mark.parametrize("rank", [None, 0, 1])
def test_lines_are_given_without_holding_them_all(plane: EmbeddedPlane, tail: int | None, rank: int | None) -> None:
    job_id = a_job_with_lines(plane)
    plane.append_lines(job_id, some_lines(job_id, ["other"], rank=1))
    wanted = [str(n) for n in range(30) if rank != 1] + ["other"] * (rank != 0)
    if tail is not None:
        wanted = wanted[-tail:] if tail else []
    assert [line.text for line in plane.lines(job_id, rank=rank, tail=tail)] == wanted
