"""The guard: locks that the kernel frees, and processes that it never leaves behind."""

from __future__ import annotations

import fcntl
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpulayer.logs.spool import SpoolReader
from gpulayer.spec.job import CommandJob
from gpulayer.spec.reports import TaskReady, TaskWaits
from gpulayer.spec.states import TaskState
from gpulayer.spec.workers import Device
from gpulayer.worker import clearing, locks, processes
from gpulayer.worker.guarded import Guarded
from gpulayer.worker.torchrun import Launch
from tests.worker.recording import RecordingPlane

Fleet = Callable[..., Any]
DEADLINE_S = 30.0


class Listener:
    """Waits for what a guard says."""

    def __init__(self, folder: Path) -> None:
        self._news = threading.Condition()
        self.guard = Guarded(folder / "guard.log", self._hear)
        self.folder = folder

    def _hear(self) -> None:
        with self._news:
            self._news.notify_all()

    def wait_for(self, condition: Callable[[Guarded], Any]) -> None:
        with self._news:
            assert self._news.wait_for(lambda: condition(self.guard), DEADLINE_S), (self.folder / "guard.log").read_text()

    def start(self, script: str) -> None:
        launch = Launch(("/bin/sh", "-c", script), dict(os.environ), str(self.folder))
        self.guard.start(launch, self.folder, self.folder / "spool")
        self.wait_for(lambda guard: guard.agent_pid)


@pytest.fixture
def guards(tmp_path: Path) -> Iterator[Callable[[], Listener]]:
    made: list[Listener] = []

    def make() -> Listener:
        folder = tmp_path / f"guard{len(made)}"
        folder.mkdir()
        made.append(Listener(folder))
        return made[-1]

    yield make
    for each in made:
        each.guard.close()


def test_only_one_guard_holds_a_lock_and_the_next_gets_it_when_the_first_is_killed(
    guards: Callable[[], Listener], tmp_path: Path
) -> None:
    first, second = guards(), guards()
    first.guard.hold([tmp_path / "a", tmp_path / "b"])
    first.wait_for(lambda guard: guard.held)

    second.guard.hold([tmp_path / "b", tmp_path / "c"])
    second.wait_for(lambda guard: guard.waits_for)
    path, pid = second.guard.waits_for or ("", 0)
    assert path == str(tmp_path / "b")
    assert not locks.is_held(tmp_path / "c")  # all or none

    os.kill(pid, signal.SIGKILL)
    second.wait_for(lambda guard: guard.held)


def test_a_guard_whose_worker_is_gone_kills_what_it_guards(guards: Callable[[], Listener], tmp_path: Path) -> None:
    one = guards()
    one.guard.hold([tmp_path / "lock"])
    one.start("trap '' TERM; setsid sleep 600 & sleep 600")
    pid = one.guard.agent_pid or 0

    one.guard.close()

    assert processes.stat(pid) is None
    assert not locks.is_held(tmp_path / "lock")


def test_output_after_the_last_newline_and_from_the_background_is_kept(guards: Callable[[], Listener]) -> None:
    one = guards()
    one.start("printf 'no newline'; printf err >&2")

    one.wait_for(lambda guard: guard.ended)

    lines = SpoolReader(one.folder / "spool").read()
    assert [(line.stream, line.text) for line in sorted(lines, key=lambda line: line.stream)] == [
        ("stderr", "err"),
        ("stdout", "no newline"),
    ]


def test_a_flush_brings_what_was_written_into_the_spool(guards: Callable[[], Listener]) -> None:
    one = guards()
    one.start("echo first; touch done; sleep 600")
    while not (one.folder / "done").exists():
        threading.Event().wait(0.01)

    assert one.guard.flush(DEADLINE_S)

    assert [line.text for line in SpoolReader(one.folder / "spool").read()] == ["first"]


def test_a_stop_is_told_apart_from_an_end_of_its_own(guards: Callable[[], Listener]) -> None:
    alone, told = guards(), guards()
    alone.start("kill -TERM $$")
    told.start("sleep 600")
    told.guard.stop(30.0)

    for each in (alone, told):
        each.wait_for(lambda guard: guard.ended)

    assert (alone.guard.exit_code, alone.guard.told) == (-15, False)
    assert (told.guard.exit_code, told.guard.told) == (-15, True)


def test_a_device_that_another_process_holds_is_waited_for_and_named(fleet: Fleet, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setattr(locks, "device_folder", lambda: tmp_path / "devices")
    (tmp_path / "devices").mkdir()
    holder = os.fork()
    if holder == 0:
        file = os.open(tmp_path / "devices" / "GPU-1", os.O_RDWR | os.O_CREAT)
        fcntl.lockf(file, fcntl.LOCK_EX)
        (tmp_path / "held").touch()
        signal.pause()
    try:
        while not (tmp_path / "held").exists():
            threading.Event().wait(0.01)
        device = Device(uuid="GPU-1", kind="cuda", index=0)
        plane = RecordingPlane(CommandJob(command=("/bin/sh", "-c", "echo $CUDA_VISIBLE_DEVICES")), devices=((device,),))
        fleet(plane)

        plane.wait_for(lambda: [each for each in plane.reports if isinstance(each, TaskWaits)])
        assert plane.of(TaskReady) == []
    finally:
        os.kill(holder, signal.SIGKILL)
        os.waitpid(holder, 0)

    (ended,) = plane.wait_ended()
    (waits,) = plane.of(TaskWaits)
    assert "GPU-1" in waits.sentence
    assert str(holder) in waits.sentence
    assert ended.state is TaskState.SUCCEEDED
    assert plane.text() == "GPU-1\n"


def test_processes_are_found_by_their_mark(tmp_path: Path) -> None:
    pid = os.posix_spawn("/bin/sleep", ["sleep", "600"], {"GPULAYER_TASK_DIR": str(tmp_path)})
    try:
        assert processes.marked(f"GPULAYER_TASK_DIR={tmp_path}") == [pid]
        assert clearing.kill_marked(tmp_path) == []
    finally:
        processes.kill([pid])


def test_the_guard_starts_with_the_standard_library_alone(python: str) -> None:
    import subprocess

    code = "import sys; import gpulayer.worker.guard, gpulayer.logs.spool; print(*(n for n in sys.modules if n in %r))"
    heavy = ("pydantic", "torch", "sqlalchemy", "fsspec", "httpx", "dataclasses", "inspect")
    found = subprocess.run([python, "-P", "-c", code % (heavy,)], capture_output=True, text=True, check=True)

    assert found.stdout.split() == []
