"""What a person reads while a command follows its job."""

from __future__ import annotations

from typing import Any

import pytest

from gpulayer.cli.following import LASTS_S, Lines, Standing
from gpulayer.spec.job import CommandJob
from gpulayer.spec.logs import LogLine
from gpulayer.spec.records import JobRecord
from gpulayer.spec.states import JobState, Phase, Reason

WAITS = "Ranks 2, 3 on blue have not joined yet."


def job(state: JobState = JobState.RUNNING, **more: Any) -> JobRecord:
    phase = Phase.RUNNING if state is JobState.RUNNING else None
    return JobRecord(id="job-1", spec=CommandJob(command=("x",)), state=state, **{"phase": phase, **more})


def line(text: str, stream: Any = "stdout", rank: int | None = 0) -> LogLine:
    rank = None if stream == "agent" else rank
    return LogLine(job_id="job-1", attempt=1, node_rank=0, rank=rank, stream=stream, seq=0, time=0.0, text=text)


def test_that_ranks_wait_is_said_once_it_has_lasted(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    standing = Standing(lambda: now[0])
    for at, why in [(0.0, ("Rank 1 waits.",)), (1.0, ()), (2.0, (WAITS,)), (LASTS_S, (WAITS,))]:
        now[0] = at
        standing.show(job(why=why))
    assert capsys.readouterr().err.splitlines() == ["gpulayer: job-1 running"]
    now[0] = 2.0 + LASTS_S
    standing.show(job(why=(WAITS,)))
    assert capsys.readouterr().err == f"gpulayer: job-1 running: {WAITS}\n"


def test_why_a_job_waits_in_the_queue_is_said_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    Standing().show(job(JobState.QUEUED, why=("waits for a worker", "box: is busy")))
    assert "waits for a worker; box: is busy" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("state", "reason", "named"),
    [
        (JobState.FAILED, Reason.USER_ERROR, True),
        (JobState.SUCCEEDED, Reason.DONE, False),
        (JobState.CANCELLED, Reason.CANCELLED_BY_USER, False),
    ],
)
def test_after_a_failure_the_next_step_is_named(
    state: JobState, reason: Reason, named: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    Standing().show(job(state, reason=reason))
    assert ("`gpulayer jobs logs job-1`" in capsys.readouterr().err) is named


def test_what_torchrun_says_is_left_to_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines()
    lines.show([line("ValueError: no"), line("torch SignalException", "agent")])
    lines.end(job(JobState.FAILED))
    out, err = capsys.readouterr()
    assert (out, err) == ("[rank0] ValueError: no\n", "")


def test_what_torchrun_says_is_shown_to_who_asks_for_it_and_where_no_rank_said_anything(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Lines(verbose=True).show([line("torch says", "agent")])
    assert "torch says" in capsys.readouterr().err
    kept = Lines()
    kept.show([line("torch fails", "agent")])
    assert capsys.readouterr().err == ""
    kept.end(job(JobState.FAILED))
    assert "torch fails" in capsys.readouterr().err
