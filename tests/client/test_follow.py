"""Following a job's news."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from gpulayer.client.follow import Follower
from gpulayer.client.interrupts import Interrupts
from gpulayer.client.listening import Listener
from gpulayer.client.progress import PlainLines
from gpulayer.errors import Forbidden, PlaneUnreachable
from gpulayer.spec.job import CommandJob
from gpulayer.spec.logs import LogLine
from gpulayer.spec.news import Cursor, News
from gpulayer.spec.records import JobRecord
from gpulayer.spec.states import JobState

JOB = JobRecord(id="job-1", spec=CommandJob(command=("x",)), state=JobState.RUNNING)
ENDED = JOB.model_copy(update={"state": JobState.CANCELLED})


def line(seq: int, text: str, rank: int | None = 0, call: int | None = 0, stream: str = "stdout") -> LogLine:
    return LogLine(
        job_id="job-1",
        attempt=1,
        node_rank=0,
        rank=rank,
        stream=stream,
        seq=seq,
        time=0.0,
        text=text,
        call=call,  # type: ignore[arg-type]
    )


class Told:
    """A plane that tells prepared news, and ends the job when it is cancelled."""

    def __init__(self, *batches: tuple[LogLine, ...]) -> None:
        self.batches = list(batches)
        self.cancels: list[bool] = []

    def news(self, job_id: str, cursor: Cursor, *, timeout_s: float) -> News:
        lines = self.batches.pop(0) if self.batches else ()
        ended = True in self.cancels or (not self.batches and not self.cancels)
        return News(job=ENDED if ended else JOB, lines=lines, cursor=Cursor(lines=cursor.lines + 1))

    def cancel(self, job_id: str, *, kill: bool) -> None:
        self.cancels.append(kill)


def follow(told: Told, interrupts: Interrupts, show_ranks: bool = False, each: object = None) -> JobRecord:
    import sys

    follower = Follower(told, "job-1", show_ranks=show_ranks)  # type: ignore[arg-type]
    showing = PlainLines(sys.stderr, 0, False)
    seen = each if callable(each) else (lambda job: None)
    return follower.until(lambda job: job.state.terminal, showing=showing, interrupts=interrupts, each=seen)


def test_only_rank_0s_lines_from_inside_of_calls_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    told = Told((line(0, "shown"), line(1, "before", call=None), line(0, "other", rank=1), line(0, "bad", stream="stderr")))
    follow(told, Interrupts())
    out, err = capsys.readouterr()
    assert (out, err) == ("shown\n", "bad\n")


def test_every_ranks_lines_are_tagged_when_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    follow(Told((line(0, "a"), line(0, "b", rank=3, call=None))), Interrupts(), show_ranks=True)
    assert capsys.readouterr().out == "[rank0] a\n[rank3] b\n"


def test_ctrl_c_cancels_and_a_second_one_kills() -> None:
    told, presses = Told((), (), (), ()), iter((signal.SIGINT, signal.SIGINT))
    with Interrupts() as interrupts:
        follow(told, interrupts, each=lambda job: os.kill(os.getpid(), next(presses, 0)))
    assert told.cancels == [False, True]


def test_ctrl_c_is_pythons_again_after_the_block() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interrupts() as interrupts:
        os.kill(os.getpid(), signal.SIGINT)
    assert interrupts.count == 1
    assert signal.getsignal(signal.SIGINT) is before


def test_a_third_ctrl_c_breaks_out() -> None:
    with Interrupts():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


class Silent(Told):
    """A plane that has no news until the job is cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Event()
        self.cancelled = threading.Event()

    def news(self, job_id: str, cursor: Cursor, *, timeout_s: float) -> News:
        if timeout_s == 0.0:
            return News(job=JOB, cursor=Cursor(lines=1))
        self.asked.set()
        assert self.cancelled.wait(timeout_s), "it was not cancelled while this question was open"
        return News(job=ENDED, cursor=Cursor(lines=2))

    def cancel(self, job_id: str, *, kill: bool) -> None:
        super().cancel(job_id, kill=kill)
        self.cancelled.set()


def test_ctrl_c_does_not_wait_for_the_answer_to_an_open_question() -> None:
    told = Silent()

    def press() -> None:
        assert told.asked.wait(30)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    pressing = threading.Thread(target=press)
    pressing.start()
    with Interrupts() as interrupts:
        assert follow(told, interrupts) is ENDED
    pressing.join()
    assert told.cancels == [False]


class Away(Silent):
    """A plane that answers nothing any more once the job runs, and then again."""

    def __init__(self) -> None:
        super().__init__()
        self.silent_s = 0.0
        self.back = threading.Event()

    def news(self, job_id: str, cursor: Cursor, *, timeout_s: float) -> News:
        if timeout_s == 0.0:
            return News(job=JOB, cursor=Cursor(lines=1))
        self.silent_s = 4.0
        self.asked.set()
        self.back.wait(timeout_s)
        self.silent_s = 0.0
        return News(job=ENDED if cursor.lines == 2 else JOB, cursor=Cursor(lines=cursor.lines + 1))

    def cancel(self, job_id: str, *, kill: bool) -> None:
        self.asked.set()
        self.back.wait(30)


def test_a_second_ctrl_c_leaves_a_plane_that_does_not_answer_and_names_the_job(capsys: pytest.CaptureFixture[str]) -> None:
    told, presses = Away(), iter((signal.SIGINT, signal.SIGINT))
    with Interrupts() as interrupts, pytest.raises(KeyboardInterrupt):
        follow(told, interrupts, each=lambda job: os.kill(os.getpid(), next(presses, 0)))
    told.back.set()
    assert "the plane does not answer; the job may still run: gpulayer jobs cancel job-1" in capsys.readouterr().err


def test_that_a_plane_is_silent_and_that_it_is_back_are_said_once_each(capsys: pytest.CaptureFixture[str]) -> None:
    told = Away()
    seen: list[object] = []

    def each(job: JobRecord) -> None:
        seen.append(job)
        if len(seen) == 4:
            told.back.set()

    follow(told, Interrupts(), each=each)
    assert capsys.readouterr().err.splitlines() == [
        "gpulayer: the plane does not answer; asking again.",
        "gpulayer: the plane answers again.",
    ]


def test_what_a_cancel_is_refused_with_comes_out_where_the_job_is_followed() -> None:
    class Refusing(Silent):
        def cancel(self, job_id: str, *, kill: bool) -> None:
            raise Forbidden("Not yours.")

    told, presses = Refusing(), iter((signal.SIGINT,))
    with Interrupts() as interrupts, pytest.raises(Forbidden):
        follow(told, interrupts, each=lambda job: os.kill(os.getpid(), next(presses, 0)))
    told.cancelled.set()


def test_trouble_with_the_plane_comes_out_where_it_is_followed() -> None:
    class Broken(Silent):
        def news(self, job_id: str, cursor: Cursor, *, timeout_s: float) -> News:
            if timeout_s > 0.0:
                raise PlaneUnreachable("It is away.")
            return super().news(job_id, cursor, timeout_s=timeout_s)

    with pytest.raises(PlaneUnreachable):
        follow(Broken(), Interrupts())


def test_an_answer_to_a_question_from_an_earlier_place_is_dropped() -> None:
    told = Silent()
    listener = Listener(told, "job-1")  # type: ignore[arg-type]
    assert listener.hear(Cursor(lines=1), 0.0) is None
    listener.wake()
    assert listener.hear(Cursor(lines=5), 30.0) is None
    told.cancelled.set()
    assert listener.hear(Cursor(lines=5), 30.0) is not None
    assert listener.hear(Cursor(lines=2), 30.0) is not None
