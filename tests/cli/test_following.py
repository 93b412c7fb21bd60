"""Following a job that a command submitted."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from gpulayer.cli import following
from gpulayer.client.listening import QUESTION_S
from gpulayer.spec.job import CommandJob
from gpulayer.spec.logs import LogLine, StreamName
from gpulayer.spec.news import Cursor, News
from gpulayer.spec.records import JobRecord
from gpulayer.spec.states import JobState

JOB = JobRecord(id="job-1", spec=CommandJob(command=("x",)), state=JobState.RUNNING)
ENDED = JOB.model_copy(update={"state": JobState.SUCCEEDED})


def line(seq: int, text: str, stream: StreamName = "stdout") -> LogLine:
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
    told = Told((JOB, (line(0, "a"),)), (ENDED, (line(1, "b"), line(2, "c", "agent"), line(3, "d"))))
    end = following.to_end(told, "job-1")  # type: ignore[arg-type]
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
