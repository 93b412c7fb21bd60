"""Environments of jobs: built once over the worker's own, whole or not at all, kept while they are used."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpulayer.errors import PreparationFailed
from gpulayer.worker import environments
from gpulayer.worker.environments import Environments
from gpulayer.worker.wishes import Stopped
from tests.waiting import wait_for
from tests.worker.wheels import wheel

pytestmark = pytest.mark.timeout(120)

OFFLINE = {"PIP_NO_INDEX": "1"}


class Worker:
    """Environments below a folder, and what was said while they were made."""

    def __init__(self, root: Path, stopped: Callable[[], bool] = lambda: False) -> None:
        self.root = root
        self.said: list[str] = []
        self.made = Environments(root, self.said.append, stopped)

    def answer(self, requirements: tuple[str, ...], program: str) -> str:
        """Run a program in the environment of these requirements."""
        with self.made.of(requirements, OFFLINE) as environment:
            done = subprocess.run([environment.python, "-c", program], capture_output=True, text=True, check=True)
        return done.stdout.strip()


@pytest.fixture
def worker(tmp_path: Path) -> Worker:
    return Worker(tmp_path / "environments")


def test_it_has_what_was_asked_for_and_what_the_worker_has(worker: Worker, tmp_path: Path) -> None:
    asked = (wheel(tmp_path, "tiny", needs=("smaller",)), wheel(tmp_path, "smaller", "2.5"))

    found = worker.answer(
        asked, "import tiny, smaller, torch, gpulayer; print(tiny.version, smaller.version, torch.__version__)"
    )

    import torch

    assert found == f"1.0 2.5 {torch.__version__}"
    assert any("Successfully installed" in line for line in worker.said)


def test_what_is_installed_goes_before_the_workers_own_and_leaves_that_alone(worker: Worker, tmp_path: Path) -> None:
    import pathspec

    asked = (wheel(tmp_path, "pathspec", "99.0"),)

    assert worker.answer(asked, "import pathspec; print(pathspec.version)") == "99.0"
    assert Path(pathspec.__file__).exists()
    assert worker.answer((), "import pathspec; print(pathspec.__file__)") == pathspec.__file__


def test_the_same_requirements_are_built_once(worker: Worker, tmp_path: Path) -> None:
    asked = (wheel(tmp_path, "tiny"),)
    worker.answer(asked, "")
    built = list(worker.said)

    assert worker.answer(asked, "import tiny; print(tiny.version)") == "1.0"
    assert worker.said == built


def test_a_file_that_changed_or_another_index_is_another_environment(worker: Worker, tmp_path: Path) -> None:
    asked = (wheel(tmp_path, "tiny", text="version = 'old'"),)
    assert worker.answer(asked, "import tiny; print(tiny.version)") == "old"

    assert (wheel(tmp_path, "tiny", text="version = 'newer'"),) == asked

    assert worker.answer(asked, "import tiny; print(tiny.version)") == "newer"
    assert environments.digest(asked, {"PIP_INDEX_URL": "https://x"}) != environments.digest(asked, {"OTHER": "1"})


def test_two_that_want_the_same_at_once_build_it_once(worker: Worker, tmp_path: Path) -> None:
    asked = (wheel(tmp_path, "tiny"),)
    answers: list[str] = []
    ask = lambda: answers.append(worker.answer(asked, "import tiny; print(tiny.version)"))  # noqa: E731
    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert answers == ["1.0"] * 3
    assert sum(line.startswith("building the environment") for line in worker.said) == 1


def test_what_can_not_be_installed_is_told_in_pips_own_words_and_leaves_nothing(worker: Worker) -> None:
    with pytest.raises(PreparationFailed, match="No matching distribution found for there-is-no-such-thing"):
        worker.answer(("there-is-no-such-thing>=3",), "")
    assert [each for each in worker.root.iterdir() if each.is_dir()] == []


def test_a_dependency_brings_no_other_torch(worker: Worker, tmp_path: Path) -> None:
    with pytest.raises(PreparationFailed, match=r"torch|Cannot install|conflict"):
        worker.answer((wheel(tmp_path, "tiny", needs=("torch==1.0",)),), "")


def test_a_build_that_a_kill_broke_off_is_not_taken_for_a_whole_one(worker: Worker, tmp_path: Path) -> None:
    asked = (wheel(tmp_path, "tiny"),)
    folder = worker.root / environments.digest(asked, OFFLINE)
    program = f"""
import sys
from pathlib import Path
from gpulayer.worker import environments
environments.Environments._install = lambda *_: print("half", flush=True) or sys.stdin.read()
with environments.Environments(Path({str(worker.root)!r}), lambda _: None, lambda: False).of({asked!r}, {OFFLINE!r}): pass
"""
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as builder:
        assert builder.stdout is not None
        assert builder.stdout.readline() == b"half\n"
        assert (folder / "bin" / "python").exists()
        os.kill(builder.pid, signal.SIGKILL)

    assert worker.answer(asked, "import tiny; print(tiny.version)") == "1.0"


def test_a_task_that_is_stopped_ends_its_build(tmp_path: Path) -> None:
    stop = threading.Event()
    slow = wheel(tmp_path, "tiny")
    worker = Worker(tmp_path / "environments", stop.is_set)
    worker.made._say = lambda line: stop.set() if line.startswith("building") else None

    with pytest.raises(Stopped):
        worker.answer((slow,), "")
    assert [each for each in worker.root.iterdir() if each.is_dir()] == []


def test_old_ones_go_but_never_one_that_is_used(worker: Worker, tmp_path: Path) -> None:
    used, idle = (wheel(tmp_path, "tiny"),), (wheel(tmp_path, "smaller"),)
    worker.answer(idle, "")
    with worker.made.of(used, OFFLINE) as environment:
        later = time.time() + environments.KEPT_S + 60

        assert environments.collect(worker.root, later) == [environments.digest(idle, OFFLINE)]

        assert Path(environment.python).exists()
    assert environments.collect(worker.root, later) == [environments.digest(used, OFFLINE)]
    assert not list(worker.root.glob("*/ready"))


def test_pip_dies_with_its_worker(tmp_path: Path) -> None:
    program = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-P", "-m", "gpulayer.worker.tied", str(os.getpid()), "http.server", "0"])
print(child.pid, flush=True)
sys.stdin.read()
"""
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        child = int(worker.stdout.readline())
        wait_for(lambda: "http.server" in Path(f"/proc/{child}/cmdline").read_text(), within=30)
        status = lambda: Path(f"/proc/{child}/maps").read_text() if Path(f"/proc/{child}").exists() else ""  # noqa: E731
        wait_for(lambda: "_socket" in status(), within=30, what="it runs")
        worker.kill()
    wait_for(lambda: not status(), within=30, what="it is gone")
