"""A CommandJob from its order to its end, with real processes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpulayer.spec.job import CommandJob, FunctionJob
from gpulayer.spec.reports import OutputsIndexed, TaskFault, TaskReady, TaskRunning
from gpulayer.spec.states import Reason, TaskState
from tests.worker.recording import RecordingPlane

Fleet = Callable[..., Any]
Bundled = Callable[..., RecordingPlane]


def sh(script: str, **fields: Any) -> CommandJob:
    return CommandJob(command=("/bin/sh", "-c", script), **fields)


def test_a_command_runs_in_the_bundle_and_its_files_and_lines_come_back(fleet: Fleet, bundled: Bundled) -> None:
    plane = bundled(sh("cat data.txt; echo oops >&2; echo new > out.txt"), {"data.txt": "hello"})
    fleet(plane)

    (ended,) = plane.wait_ended()

    assert (ended.state, ended.reason, ended.exit_code) == (TaskState.SUCCEEDED, Reason.DONE, 0)
    assert [type(each) for each in plane.reports[:2]] == [TaskReady, TaskRunning]
    assert plane.text(stream="stdout") == "hello\n"
    assert plane.text(stream="stderr") == "oops\n"
    (indexed,) = plane.of(OutputsIndexed)
    assert [(entry.path, plane.blobs[entry.blob.sha256]) for entry in indexed.manifest.entries] == [("out.txt", b"new\n")]


@pytest.mark.parametrize(
    ("script", "code", "kind", "signal"),
    [
        ("exit 3", 3, "exit", None),
        ("kill -9 $$", 137, "signal", 9),
        ("kill -SEGV $$", 139, "signal", 11),
        ("exec /no/such/program", 127, "exit", None),
    ],
)
def test_an_exit_code_is_the_commands_own(fleet: Fleet, script: str, code: int, kind: str, signal: int | None) -> None:
    plane = RecordingPlane(sh(script))
    fleet(plane)

    (ended,) = plane.wait_ended()

    assert (ended.state, ended.exit_code) == (TaskState.FAILED, code)
    (fault,) = plane.of(TaskFault)
    assert (fault.evidence.kind, fault.evidence.signal, fault.evidence.exit_code) == (kind, signal, code)


def test_a_word_that_no_program_can_be_given_ends_the_task_and_not_its_guard(fleet: Fleet) -> None:
    plane = RecordingPlane(CommandJob(command=("true", "a" * 200_000)))
    fleet(plane)

    (ended,) = plane.wait_ended()

    assert (ended.state, ended.reason) == (TaskState.FAILED, Reason.EXITED)
    assert "Argument list too long" in ended.sentence


def test_a_program_that_does_not_exist_is_named(fleet: Fleet) -> None:
    plane = RecordingPlane(CommandJob(command=("no-such-program", "x")))
    fleet(plane)

    (ended,) = plane.wait_ended()

    assert ended.state is TaskState.FAILED
    assert "no-such-program" in ended.sentence


def test_python_means_the_workers_python(fleet: Fleet, python: str) -> None:
    plane = RecordingPlane(CommandJob(command=("python", "-c", "import sys; print(sys.executable)")))
    fleet(plane)

    plane.wait_ended()

    assert plane.text() == python + "\n"


def test_a_thousand_lines_at_once_all_arrive_in_order(fleet: Fleet) -> None:
    plane = RecordingPlane(sh("i=0; while [ $i -lt 1000 ]; do echo line $i; i=$((i+1)); done"))
    fleet(plane)

    plane.wait_ended()

    assert plane.text() == "".join(f"line {number}\n" for number in range(1000))
    assert [line.seq for line in plane.kept_lines] == list(range(1000))


def test_lines_are_seen_while_the_command_runs(fleet: Fleet) -> None:
    plane = RecordingPlane(sh("echo first; sleep 600"))
    fleet(plane)

    plane.wait_for(lambda: plane.text() == "first\n")
    plane.stop(grace_s=5.0)

    (ended,) = plane.wait_ended()
    assert (ended.state, ended.reason, ended.exit_code) == (TaskState.CANCELLED, Reason.CANCELLED_BY_USER, 143)


def test_a_command_that_ignores_sigterm_is_killed_after_the_grace(fleet: Fleet) -> None:
    plane = RecordingPlane(sh("trap '' TERM; echo up; while :; do sleep 0.1; done"))
    fleet(plane)
    plane.wait_for(lambda: plane.text() == "up\n")

    plane.stop(grace_s=0.3)

    (ended,) = plane.wait_ended()
    assert (ended.state, ended.exit_code) == (TaskState.CANCELLED, 137)


def test_a_command_may_clear_up_within_the_grace(fleet: Fleet) -> None:
    plane = RecordingPlane(sh("trap 'echo saved > saved.txt; exit 0' TERM; echo up; while :; do sleep 0.05; done"))
    fleet(plane)
    plane.wait_for(lambda: plane.text() == "up\n")

    plane.stop(grace_s=30.0)

    (ended,) = plane.wait_ended()
    assert ended.state is TaskState.CANCELLED
    (indexed,) = plane.of(OutputsIndexed)
    assert [entry.path for entry in indexed.manifest.entries] == ["saved.txt"]


def test_a_stop_before_the_start_ends_it_without_a_process(fleet: Fleet) -> None:
    plane = RecordingPlane(sh("echo ran"))
    plane.stop()
    fleet(plane)

    (ended,) = plane.wait_ended()

    assert ended.state is TaskState.CANCELLED
    assert plane.of(TaskRunning) == []
    assert plane.text() == ""


def test_a_timeout_is_the_workers_to_keep(fleet: Fleet) -> None:
    plane = RecordingPlane(sh("sleep 600", timeout_s=0.3, grace_s=1.0))
    fleet(plane)

    (ended,) = plane.wait_ended()

    assert (ended.state, ended.reason) == (TaskState.TIMED_OUT, Reason.TIMEOUT)
    assert "0.3 s" in ended.sentence


@pytest.mark.parametrize("how", ["&", "setsid", "double"])
def test_what_a_command_leaves_in_the_background_ends_with_it(fleet: Fleet, how: str, home: Path) -> None:
    start = {"&": "sleep 600 &", "setsid": "setsid sleep 600 &", "double": "(setsid sh -c 'sleep 600 & sleep 600' &);"}[how]
    plane = RecordingPlane(sh(f"{start} echo up"))
    fleet(plane)

    (ended,) = plane.wait_ended()

    assert ended.state is TaskState.SUCCEEDED
    assert plane.text() == "up\n"  # that nothing is left is what the home fixture checks


def test_folders_of_an_ended_task_are_removed(fleet: Fleet, home: Path) -> None:
    plane = RecordingPlane(sh("echo x > x"))
    agents = fleet(plane).agents
    plane.wait_ended()

    assert agents[0].await_idle(10.0)
    assert list((home / "tasks").iterdir()) == []
    assert list((home / "work").iterdir()) == []


def test_the_environment_of_a_job(fleet: Fleet, home: Path) -> None:
    plane = RecordingPlane(sh("env; test -d $TMPDIR && echo there=1", env={"MINE": "1", "LR": "job"}))
    fleet(plane, SLURM_JOB_ID="1", RANK="7", MASTER_ADDR="x", GPULAYER_JOB_ID="job-0", LR="host", KEPT="yes")

    plane.wait_ended()

    env = dict(line.split("=", 1) for line in plane.text().splitlines() if "=" in line)
    assert env["MINE"] == "1"
    assert env["LR"] == "job"
    assert env["KEPT"] == "yes"
    assert env["OMP_NUM_THREADS"] == os.environ.get("OMP_NUM_THREADS", "1")
    assert env["GPULAYER_JOB_ID"] == plane.job_id
    assert env["there"] == "1"
    plane.wait_for(lambda: not Path(env["TMPDIR"]).exists())  # a task's own, removed after its last word
    assert not {"SLURM_JOB_ID", "RANK", "MASTER_ADDR", "PYTHONSAFEPATH"} & set(env)


def test_inputs_are_there_before_the_start(fleet: Fleet, tmp_path: Path) -> None:
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "a.txt").write_text("A")
    (tmp_path / "one.txt").write_text("B")
    inputs = ({"uri": str(tmp_path / "weights"), "path": "w"}, {"uri": f"file://{tmp_path}/one.txt", "path": "deep/b.txt"})
    plane = RecordingPlane(sh("cat $GPULAYER_INPUT_DIR/w/a.txt $GPULAYER_INPUT_DIR/deep/b.txt", inputs=inputs))
    fleet(plane)

    plane.wait_ended()

    assert plane.text() == "AB\n"


@pytest.mark.parametrize("inputs", [({"uri": "/no/such/file", "path": "x"},), ({"uri": "/etc/hostname", "path": "../x"},)])
def test_a_failed_preparation_says_what_it_was(fleet: Fleet, inputs: Any) -> None:
    plane = RecordingPlane(sh("echo ran", inputs=inputs))
    fleet(plane)

    (ended,) = plane.wait_ended()

    assert (ended.state, ended.reason) == (TaskState.FAILED, Reason.PREPARATION_FAILED)
    assert inputs[0]["uri"] in ended.sentence or inputs[0]["path"] in ended.sentence
    assert "jobs logs" not in ended.sentence
    (fault,) = plane.of(TaskFault)
    assert (fault.evidence.next_step == "Give a relative path.") == (inputs[0]["path"] == "../x")
    assert "Give a relative path" not in ended.sentence


def test_a_function_takes_and_gives_json(fleet: Fleet, bundled: Bundled) -> None:
    job = FunctionJob(function="mod:add", args=(1, "", None), kwargs={"c": [0, False]})
    plane = bundled(job, {"mod.py": "def add(*args, **kw):\n    print('called')\n    return {'args': args, 'kw': kw}\n"})
    fleet(plane)

    (ended,) = plane.wait_ended()

    assert ended.state is TaskState.SUCCEEDED, plane.text()
    (indexed,) = plane.of(OutputsIndexed)
    found = {entry.path: plane.blobs[entry.blob.sha256] for entry in indexed.manifest.entries}
    assert found == {"result.json": b'{"args": [1, "", null], "kw": {"c": [0, false]}}'}
    assert plane.text(rank=0) == "called\n"


def test_a_function_that_raises_is_evidence_of_its_exception(fleet: Fleet, bundled: Bundled) -> None:
    plane = bundled(FunctionJob(function="mod:bad"), {"mod.py": "class Oops(Exception): pass\ndef bad(): raise Oops('no')\n"})
    fleet(plane)

    (ended,) = plane.wait_ended()

    assert (ended.state, ended.reason, ended.exit_code) == (TaskState.FAILED, Reason.USER_ERROR, 1)
    (fault,) = plane.of(TaskFault)
    assert fault.evidence.kind == "exception"
    assert (fault.evidence.error.module, fault.evidence.error.qualname, fault.evidence.error.message) == ("mod", "Oops", "no")
