"""kill -9 of a rank, of torchrun and of the caller: nothing is left, the record says why, and the next fit works."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpulayer import plane
from gpulayer.spec.records import JobRecord
from gpulayer.spec.states import JobState, Reason
from tests.waiting import wait_for

from .processes import agents, of_home, ranks

PROGRAM = Path(__file__).parent / "programs" / "endless.py"
pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


class Script:
    """The caller's script, running, with what it printed so far."""

    def __init__(self, home: Path, folder: Path, **env: str) -> None:
        self.home, self.output = home, folder / "output.txt"
        with self.output.open("wb") as stream:
            self.process = subprocess.Popen(
                [sys.executable, str(PROGRAM)],
                cwd=folder,
                env={**os.environ, "GPULAYER_HOME": str(home), "OMP_NUM_THREADS": "1", **env},
                stdout=stream,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )

    def printed(self, text: str, *, within: float = 90) -> None:
        def look() -> bool:
            if text in self.output.read_text():
                return True
            assert self.process.poll() is None, self.output.read_text()
            return False

        wait_for(look, within=within, what=f"{text!r} in:\n{self.output.read_text()}")

    def end(self, *, within: float = 120) -> int:
        return self.process.wait(within)


@pytest.fixture
def start(home: Path, tmp_path: Path) -> Iterator[type[Script]]:
    started: list[Script] = []

    def run(**env: str) -> Script:
        folder = tmp_path / "caller"
        folder.mkdir(exist_ok=True)
        started.append(Script(home, folder, **env))
        return started[-1]

    yield run  # type: ignore[misc]
    for script in started:
        script.process.kill()
        script.process.wait()
    wait_for(lambda: not of_home(home), within=20, what="the end of all that the test started")


def job_of(home: Path, index: int = 0) -> JobRecord:
    """Return the job that was submitted as number ``index``, once its state is terminal."""
    opened = plane.open(home, process="cli")
    try:

        def look() -> JobRecord | None:
            jobs = opened.jobs()[::-1]
            return jobs[index] if len(jobs) > index and jobs[index].state.terminal else None

        return wait_for(look, within=15, what=f"the end of job {index}")
    finally:
        opened.close()


def nothing_left(home: Path) -> None:
    wait_for(lambda: not of_home(home), within=10, what="the end of all processes of the job")


@pytest.mark.parametrize("fork", ["0", "1"], ids=["plain", "with a forked child"])
def test_a_killed_rank_fails_the_job_by_its_signal_and_the_next_fit_works(start: type[Script], home: Path, fork: str) -> None:
    script = start(FORK=fork)
    script.printed("STEPPING")
    first = set(of_home(home))

    os.kill(ranks(home)[3], signal.SIGKILL)

    wait_for(lambda: not first & set(of_home(home)), within=10, what="the end of the first job's processes")
    script.printed("AGAIN 1 2")
    assert script.end() == 0
    job = job_of(home)
    assert (job.state, job.reason) == (JobState.FAILED, Reason.SIGNALLED)
    assert job.cause is not None
    assert (job.cause.rank, job.cause.signal) == (3, signal.SIGKILL)
    assert job_of(home, 1).state is JobState.SUCCEEDED
    nothing_left(home)


@pytest.mark.parametrize("fork", ["0", "1"], ids=["plain", "with a forked child"])
def test_a_killed_torchrun_fails_the_job_and_the_next_fit_works(start: type[Script], home: Path, fork: str) -> None:
    script = start(FORK=fork)
    script.printed("STEPPING")
    first = set(of_home(home))

    os.kill(agents(home)[0], signal.SIGKILL)

    wait_for(lambda: not first & set(of_home(home)), within=10, what="the end of the first job's processes")
    script.printed("AGAIN 1 2")
    assert script.end() == 0
    job = job_of(home)
    assert (job.state, job.reason) == (JobState.FAILED, Reason.SIGNALLED)
    nothing_left(home)


@pytest.mark.parametrize("fork", ["0", "1"], ids=["plain", "with a forked child"])
def test_a_killed_caller_leaves_nothing_and_its_job_is_cancelled_as_caller_gone(
    start: type[Script], home: Path, fork: str
) -> None:
    script = start(FORK=fork)
    script.printed("STEPPING")

    script.process.kill()

    nothing_left(home)
    job = job_of(home)
    assert (job.state, job.reason) == (JobState.CANCELLED, Reason.CALLER_GONE)
    again = start(NODES="1", FORK="0")
    again.printed("STEPPING")


def test_a_caller_killed_together_with_its_workers_is_found_lost_by_the_next_program(start: type[Script], home: Path) -> None:
    script = start()
    script.printed("STEPPING")
    hosts = [int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit() and _is_host(p, home)]
    assert hosts

    for pid in [script.process.pid, *hosts]:
        os.kill(pid, signal.SIGKILL)
    script.process.wait(30)  # a large process takes its time to die, and holds its lock meanwhile

    nothing_left(home)
    job = job_of(home)
    assert (job.state, job.reason) == (JobState.LOST, Reason.CALLER_AND_WORKER_GONE)


def _is_host(entry: Path, home: Path) -> bool:
    try:
        command = entry.joinpath("cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return b"gpulayer.worker.local" in command and str(home).encode() in command
