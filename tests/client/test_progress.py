"""What a user reads while a job goes on."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys

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
    assert out.getvalue().startswith("gpulayer: job-1 fit epoch 1/3 "), "lines of several jobs in one log can be told apart"


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


def test_of_two_processes_in_one_terminal_one_draws_and_the_other_prints() -> None:
    leader, follower = pty.openpty()
    look = (
        "import sys; from gpulayer.client import progress; print(type(progress.showing(True, 0)).__name__, flush=True); input()"
    )
    started = []
    try:
        for _ in range(2):
            given = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": follower, "text": True}
            started.append(subprocess.Popen([sys.executable, "-c", look], **given))  # type: ignore[call-overload]
            started[-1].first = started[-1].stdout.readline().strip()
        assert [each.first for each in started] == ["LiveLine", "PlainLines"]
    finally:
        for each in started:
            each.communicate("\n", timeout=30)
        os.close(leader)
        os.close(follower)


class Handle:
    """What IPython's ``display`` returns: the outputs of a cell, of which the last is seen."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def display(self, output: dict[str, str], **_: object) -> Handle:
        self.update(output)
        return self

    def update(self, output: dict[str, str], **_: object) -> None:
        self.seen.append(output["text/plain"])


def test_a_cell_has_one_line_which_ends_with_how_far_the_call_came() -> None:
    handle = Handle()
    line = progress.NotebookLine(handle.display, 0)
    for each in (job(state=JobState.QUEUED, phase=None), job(at(0)), job(at(2)), job(at(2)), job(at(2), phase=Phase.UPLOADING)):
        line.show(each)
    line.close()
    assert [text.split(" batch ")[0] for text in handle.seen] == [
        "job-1 is queued", "job-1 fit epoch 1/3", "job-1 fit epoch 3/3", "job-1 stores its files", "job-1 fit epoch 3/3",
    ]  # fmt: skip
