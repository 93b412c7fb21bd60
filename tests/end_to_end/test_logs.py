"""What jobs print, as a person at a terminal sees it: a real server, workers as programs, and the command line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gpulayer.control.server.quota import MARK
from gpulayer.plane import Plane
from gpulayer.spec.job import CommandJob
from gpulayer.spec.records import JobRecord
from tests.end_to_end.processes import SCRIPT_S
from tests.end_to_end.test_remote import Fleet, ended, gpulayer
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(3 * SCRIPT_S)
MOST_LINES = 20_000


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A server that keeps few lines of each job, with two workers."""
    made = Fleet(tmp_path_factory.mktemp("fleet"), 2, "--max-log-lines", str(MOST_LINES))
    try:
        made.wait_until_up()
        yield made
    finally:
        made.close()


@pytest.fixture
def plane(fleet: Fleet) -> Iterator[Plane]:
    with closing(fleet.plane()) as opened:
        yield opened


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "caller"
    folder.mkdir()
    (folder / "pyproject.toml").touch()
    return folder


def launch(fleet: Fleet, folder: Path, code: str, *, nodes: int = 2, exits: int = 0) -> tuple[list[str], str]:
    """Launch a script on a process of each node; what the job printed, and what was said beside it."""
    (folder / "script.py").write_text(code)
    done = gpulayer(fleet, folder, "launch", "script.py", "--num-workers", str(nodes))
    assert done.returncode == exits, done.stdout + done.stderr
    return done.stdout.splitlines(), done.stderr


def start(plane: Plane, command: str) -> JobRecord:
    """Begin a shell command on a worker."""
    job = CommandJob(command=("sh", "-c", command), placement={"target": "remote"}, grace_s=1)
    return plane.submit(job)


def printed(plane: Plane, job_id: str, text: str) -> None:
    wait_for(lambda: any(line.text == text for line in plane.lines(job_id)), within=SCRIPT_S, what=f"{job_id} prints {text!r}")


def test_a_thousand_lines_printed_at_once_by_each_rank_are_all_there_from_the_first(fleet: Fleet, folder: Path) -> None:
    lines, _ = launch(fleet, folder, "print('\\n'.join(f'line {n}' for n in range(1000)))\n")
    for rank in (0, 1):
        assert [line for line in lines if line.startswith(f"[rank{rank}]")] == [f"[rank{rank}] line {n}" for n in range(1000)]


def test_the_same_line_is_shown_as_often_as_it_was_printed(fleet: Fleet, folder: Path) -> None:
    lines, _ = launch(fleet, folder, "for _ in range(100): print('the same')\n")
    assert sorted(lines) == ["[rank0] the same"] * 100 + ["[rank1] the same"] * 100


def test_logs_of_a_running_job_are_those_of_now_and_of_an_ended_one_the_same_each_time(
    fleet: Fleet, folder: Path, plane: Plane
) -> None:
    job = start(plane, f"echo up; while [ ! -e {folder / 'go'} ]; do sleep 0.05; done; echo end")
    printed(plane, job.id, "up")
    assert gpulayer(fleet, folder, "jobs", "logs", job.id).stdout == "up\n"
    assert not plane.job(job.id).state.terminal
    (folder / "go").touch()
    ended(plane, job.id)
    assert [gpulayer(fleet, folder, "jobs", "logs", job.id).stdout for _ in range(2)] == ["up\nend\n"] * 2


def test_every_line_of_a_traceback_says_whose_it_is_and_the_job_fails_for_it(fleet: Fleet, folder: Path) -> None:
    code = "import os, time\nif os.environ['RANK'] == '1':\n    raise ValueError('two\\nlines')\ntime.sleep(600)\n"
    lines, said = launch(fleet, folder, code, exits=1)
    assert lines[0] == "[rank1] Traceback (most recent call last):"
    assert lines[-2:] == ["[rank1] ValueError: two", "[rank1] lines"]
    assert all(line.startswith("[rank1]") for line in lines)
    verdict = said.rpartition("gpulayer: ")[2]
    assert "Rank 1 raised ValueError: two" in verdict


def test_what_c_and_the_interpreter_itself_write_is_there(fleet: Fleet, folder: Path) -> None:
    code = "import faulthandler, os\nos.write(2, b'from C\\n')\nfaulthandler.enable()\nos.kill(os.getpid(), 11)\n"
    lines, said = launch(fleet, folder, code, nodes=1, exits=1)
    assert lines[0] == "[rank0] from C"
    assert "[rank0] Fatal Python error: Segmentation fault" in lines
    assert "SIGSEGV" in said


def test_a_bar_is_one_line_with_its_last_state(fleet: Fleet, folder: Path) -> None:
    code = "from tqdm import tqdm\nfor _ in tqdm(range(1000), mininterval=0): pass\nprint('done')\n"
    lines, _ = launch(fleet, folder, code, nodes=1)
    (bar,) = [line for line in lines if "it/s" in line]
    assert re.match(r"\[rank0\] 100%.* 1000/1000 ", bar)
    assert "[rank0] done" in lines


def test_a_line_can_be_traced_to_its_worker(fleet: Fleet, folder: Path, plane: Plane) -> None:
    launch(fleet, folder, "print('here')\n")
    job = plane.jobs(limit=1)[0]
    at = {task.node_rank: task.worker_name for task in job.tasks}
    assert set(at.values()) == {"box-0", "box-1"}
    tagged = gpulayer(fleet, folder, "jobs", "logs", job.id, "--workers").stdout.splitlines()
    assert sorted(tagged) == [f"[rank{rank}@{at[rank]}] here" for rank in (0, 1)]
    told = [json.loads(line) for line in gpulayer(fleet, folder, "jobs", "logs", job.id, "--json").stdout.splitlines()]
    assert {line["rank"]: line["worker"] for line in told if line["text"] == "here"} == at


def test_a_program_that_prints_without_end_fills_neither_the_planes_disk_nor_its_time(
    fleet: Fleet, folder: Path, plane: Plane
) -> None:
    runaway = start(plane, "exec yes 'a line that is printed again and again'")
    wait_for(
        lambda: any(line.text.startswith(MARK) for line in plane.lines(runaway.id, tail=1)), within=SCRIPT_S, what="the mark"
    )
    before = disk(fleet)
    other = ended(plane, start(plane, "echo meanwhile").id)
    assert [line.text for line in plane.lines(other.id)] == ["meanwhile"]
    assert disk(fleet) < before + 2_000_000
    plane.cancel(runaway.id)
    assert ended(plane, runaway.id).state == "cancelled"
    kept = gpulayer(fleet, folder, "jobs", "logs", runaway.id).stdout.splitlines()
    assert len(kept) == MOST_LINES + 1
    assert kept[-1].startswith(f"{MARK} ({MOST_LINES:,} lines")


def disk(fleet: Fleet) -> int:
    """Return how much the plane keeps."""
    return sum(path.stat().st_size for path in fleet.server.data.glob("plane.db*"))


def test_a_killed_workers_lines_can_be_read_while_it_is_away(fleet: Fleet, folder: Path, plane: Plane) -> None:
    job = start(plane, "echo before; exec sleep 600")
    printed(plane, job.id, "before")
    victim = plane.job(job.id).tasks[0].worker_name
    fleet.kill_worker(victim)
    assert gpulayer(fleet, folder, "jobs", "logs", job.id).stdout == "before\n"
    fleet.start_worker(victim)
    assert ended(plane, job.id).state == "lost"
    assert gpulayer(fleet, folder, "jobs", "logs", job.id).stdout == "before\n"
