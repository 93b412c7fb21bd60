"""What a user reads while a job goes on."""

from __future__ import annotations

import io

from gpulayer.client import progress
from gpulayer.spec.calls import Progress
from gpulayer.spec.job import CommandJob
from gpulayer.spec.records import JobRecord, TaskRecord
from gpulayer.spec.states import JobState, Phase, TaskState


def job(
    told: Progress | None = None, state: JobState = JobState.RUNNING, phase: Phase | None = Phase.RUNNING, **more: object
) -> JobRecord:
    spec = CommandJob(command=("x",))
    return JobRecord(id="job-1", spec=spec, state=state, phase=phase, progress=told, **more)  # type: ignore[arg-type]


def at(epoch: int, batch: int = 0, call: int = 0) -> Progress:
    return Progress(
        call=call, at=0.0, function="fit", epoch=epoch, max_epochs=3, batch=batch, batches=8, rate=2.0, metrics={"loss": 0.5}
    )


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_progress_reads_as_a_sentence() -> None:
    told = at(1, 4).model_copy(update={"eta_s": 62.0})
    assert progress.in_words(told) == "fit epoch 2/3 batch 4/8 2 it/s eta 1:02 loss=0.5"
    assert progress.in_words(at(3)).startswith("fit epoch 3/3 ")


def test_a_pipe_gets_a_line_for_each_epoch_and_every_ten_seconds() -> None:
    out, clock = io.StringIO(), Clock()
    lines = progress.PlainLines(out, 0, True, clock)
    for now, told in [(0, at(0)), (1, at(0, 3)), (2, at(1)), (3, at(1, 5)), (13, at(1, 6))]:
        clock.now = float(now)
        lines.show(job(told))
    assert [line.split(" batch ")[1][0] for line in out.getvalue().splitlines()] == ["0", "0", "6"]


def test_another_calls_progress_is_not_shown_as_this_ones() -> None:
    out = io.StringIO()
    progress.PlainLines(out, 1, True).show(job(at(2, call=0)))
    assert out.getvalue() == ""


def test_why_a_job_waits_for_long_is_said_once_even_without_a_bar() -> None:
    out, clock = io.StringIO(), Clock()
    lines = progress.PlainLines(out, 0, False, clock)
    queued = job(state=JobState.QUEUED, phase=None, why=("wkr-1 is busy",))
    for now, each in [(0, queued), (1, queued), (2, queued), (30, queued), (31, job(at(0)))]:
        clock.now = float(now)
        lines.show(each)
    assert out.getvalue() == "gpulayer: job-1 waits: wkr-1 is busy\n"


def test_a_phase_that_lasts_is_said_once_with_its_workers() -> None:
    out, clock = io.StringIO(), Clock()
    lines = progress.PlainLines(out, 0, True, clock)
    tasks = tuple(
        TaskRecord(job_id="job-1", attempt=1, node_rank=at, worker_id=f"wkr-{at}", worker_name=name, state=TaskState.RUNNING)
        for at, name in enumerate(("red", "blue"))
    )
    for now, phase in [(0, Phase.PREPARING), (2, Phase.PREPARING), (3, Phase.GATING), (4, Phase.RUNNING), (9, Phase.RUNNING),
                       (30, Phase.RUNNING), (31, Phase.STOPPING), (33, Phase.STOPPING), (60, Phase.STOPPING)]:  # fmt: skip
        clock.now = float(now)
        lines.show(job(phase=phase, tasks=tasks))
    assert out.getvalue().splitlines() == [
        "gpulayer: job-1 is being prepared on red, blue",
        "gpulayer: job-1 starts on red, blue",
        "gpulayer: job-1 stops on red, blue",
    ]


def test_an_epoch_that_was_told_of_is_not_told_of_again_while_the_job_stops() -> None:
    out, clock = io.StringIO(), Clock()
    lines = progress.PlainLines(out, 0, True, clock)
    for now, phase in [(0, Phase.RUNNING), (1, Phase.STOPPING), (12, Phase.STOPPING), (30, Phase.STOPPING)]:
        clock.now = float(now)
        lines.show(job(at(0), phase=phase))
    assert [line.split()[1:] for line in out.getvalue().splitlines()][1:] == [["job-1", "stops"]]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_one_live_line_that_goes_away() -> None:
    line = progress.showing(True, 0, Terminal())
    assert isinstance(line, progress.LiveLine)
    line.show(job(at(0)))
    line.pause()
    line.close()


def test_no_bar_is_drawn_when_none_is_wanted() -> None:
    assert isinstance(progress.showing(False, 0, Terminal()), progress.PlainLines)
