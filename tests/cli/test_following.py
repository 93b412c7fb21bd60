"""Following a job that a command submitted."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import pytest

from gpulayer.cli import following
from gpulayer.cli.following import LASTS_S, Lines, Standing
from gpulayer.client.listening import QUESTION_S
from gpulayer.spec.job import CommandJob
from gpulayer.spec.logs import LogLine, StreamName
from gpulayer.spec.news import Cursor, News
from gpulayer.spec.records import JobRecord
from gpulayer.spec.states import JobState, Phase, Reason

JOB = JobRecord(id="job-1", spec=CommandJob(command=("x",)), state=JobState.RUNNING)
ENDED = JOB.model_copy(update={"state": JobState.SUCCEEDED})


def told_line(seq: int, text: str, stream: StreamName = "stdout") -> LogLine:
    return LogLine(job_id="job-1", attempt=1, node_rank=0, rank=None, stream=stream, seq=seq, time=0.0, text=text)


class Told:
    """A plane that tells what was prepared, and keeps how long each question would have waited."""

    def __init__(self, *told: tuple[JobRecord, tuple[LogLine, ...]]) -> None:
        self.told = list(told)
        self.waits: list[float] = []
        self.cancelled = threading.Event()

    def news(self, job_id: str, cursor: Cursor, *, timeout_s: float = 0.0) -> News:
        self.waits.append(timeout_s)
        job, lines = self.told.pop(0) if self.told else (ENDED, ())
        return News(job=job, lines=lines, cursor=Cursor(lines=cursor.lines + len(lines)))

    def cancel(self, job_id: str, *, kill: bool) -> None:
        self.cancelled.set()


def test_once_a_job_has_ended_nothing_more_is_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    told = Told((JOB, (told_line(0, "a"),)), (ENDED, (told_line(1, "b"), told_line(2, "c", "agent"), told_line(3, "d"))))
    end = following.to_end(told, "job-1", verbose=True)  # type: ignore[arg-type]
    out, err = capsys.readouterr()
    assert (end.job, out) == (ENDED, "a\nb\nd\n")
    assert "[node0] c\n" in err
    assert told.waits == [0.0, QUESTION_S, 0.0]


def test_a_ctrl_c_cancels_while_the_plane_keeps_a_question() -> None:
    class Silent(Told):
        def news(self, job_id: str, cursor: Cursor, *, timeout_s: float = 0.0) -> News:
            if timeout_s:
                os.kill(os.getpid(), signal.SIGINT)
                assert self.cancelled.wait(timeout_s), "it was not cancelled while this question was open"
            return super().news(job_id, cursor, timeout_s=timeout_s)

    told = Silent((JOB, ()))
    end = following.to_end(told, "job-1")  # type: ignore[arg-type]
    assert (end.interrupted, end.left) == (True, False)
    assert told.cancelled.is_set()


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
