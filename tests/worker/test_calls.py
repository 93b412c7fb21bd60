"""The calls of a script between a plane and real ranks, with a half that knows no Lightning."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpulayer.spec.calls import EarlierCall, Fingerprint, Go
from gpulayer.spec.job import Calls, CommandJob, DistributedJob
from gpulayer.spec.reports import (
    CallStored,
    CheckpointAnnounced,
    OutputsIndexed,
    RankArrived,
    RankOutcome,
    RankProgress,
    TaskFault,
)
from gpulayer.spec.states import Reason, TaskState
from gpulayer.worker import running
from tests.left_running import left_running
from tests.worker.recording import RecordingPlane

Fleet = Callable[..., Any]
Bundled = Callable[..., RecordingPlane]

HALF = '''
"""Plays the in-job half: ``call()`` in the script meets the caller's calls in lockstep."""
import atexit, os, sys
from pathlib import Path
from gpulayer.spec.calls import Fingerprint, Go, Progress
from gpulayer.spec.rank_messages import End, Raised

link = context = None
count = 0

def install(found, where):
    global link, context
    link, context = found, where

def mark(text):
    for fd in (1, 2):
        os.write(fd, f"\\x1egpulayer call={text}\\n".encode())

def leave():
    link.left(0)
    os._exit(0)

def call(script_status="ok"):
    global count
    go = link.await_go() if count == 0 else upcoming
    k, count = count, count + 1
    link.arrive(Fingerprint(call=k, function="fit", trainer=0, module="m:M", shapes=""), state_digest="d")
    begin = link.await_begin(k)
    if isinstance(begin, End): leave()
    mark(k)
    print("inside", k, Path(go.settings).read_text() if go.settings else None,
          Path(begin.state).read_text() if begin.state else None, [e and Path(e).read_text() for e in go.earlier])
    ckpt = context.output / f"ck{k}.ckpt"
    ckpt.write_text(f"weights {k} of {context.rank}")
    serial = link.announce(str(ckpt), [str(ckpt)] if context.rank == 0 else [], epoch=k, step=1)
    link.await_kept(serial)
    if context.rank == 0:
        (context.output / "gone.ckpt").write_text("x")
        link.await_kept(link.announce(str(context.output / "gone.ckpt"), [str(context.output / "gone.ckpt")]))
        (context.output / "gone.ckpt").unlink()
        link.progress(Progress(call=k, at=0.0, epoch=k))
    mark("-")
    body = context.task / f"body{k}.{context.rank}"
    body.write_text(f"outcome {k} of {context.rank}")
    if script_status == "ok":
        link.record(k, "ok", body=body.name)
        globals()["upcoming"] = got = link.await_go()
        if isinstance(got, End): leave()
    else:
        link.record(k, "failed", body=str(body), error=Raised(module="builtins", qualname="ValueError", message="no"))
        sys.exit(1)
'''


def calls(half: str = "half") -> Calls:
    return Calls(root="/", cwd="/", half=half)


def go(call: int, **fields: Any) -> Go:
    return Go(fingerprint=Fingerprint(call=call, function="fit", trainer=0, module="m:M", shapes=""), **fields)


def settled(plane: RecordingPlane, call: int) -> Callable[[], bool]:
    return lambda: call in plane.views and plane.views[call].settled


SCRIPT = "import half\nprint('before')\nhalf.call()\nprint('between')\nhalf.call()\nprint('after')\n"


def with_half(bundled: Bundled, job: Any, script: str = SCRIPT) -> RecordingPlane:
    return bundled(job.model_copy(update={"env": {"PYTHONPATH": "."}}), {"train.py": script, "half.py": HALF})


def test_two_calls_advance_in_lockstep_on_two_nodes(fleet: Fleet, bundled: Bundled) -> None:
    job = DistributedJob(entrypoint="train.py", num_workers=2, procs_per_worker=1, calls=calls())
    plane = with_half(bundled, job)
    settings, state, earlier = (plane.put_blob(text) for text in (b"settings", b"state", b"earlier"))
    fleet(plane, 2)

    plane.go(go(0, settings=settings, state=state, earlier=(EarlierCall(call=-1, status="ok", outcome=earlier),)))
    plane.wait_for(settled(plane, 0))

    bodies = {each.outcome.rank: plane.blobs[each.outcome.body.sha256] for each in plane.of(RankOutcome)}
    assert bodies == {0: b"outcome 0 of 0", 1: b"outcome 0 of 1"}
    stored = {each.node_rank: [entry.path for entry in each.manifest.entries] for each in plane.of(CallStored)}
    assert stored == {0: ["ck0.ckpt"], 1: []}
    shares = [each.share for each in plane.of(CheckpointAnnounced)]
    found = sorted((each.rank, each.path, each.serial, [entry.path for entry in each.entries]) for each in shares)
    assert found == [(0, "ck0.ckpt", 1, ["ck0.ckpt"]), (0, "gone.ckpt", 2, ["gone.ckpt"]), (1, "ck0.ckpt", 1, [])]
    assert "between" not in plane.text()

    plane.go(go(1))
    plane.wait_for(settled(plane, 1))
    plane.change(caller_ended=True)

    ended = plane.wait_ended()
    assert [each.state for each in ended] == [TaskState.SUCCEEDED] * 2, plane.text()
    assert [(line.text, line.call) for line in plane.kept_lines if line.rank == 1 and line.stream == "stdout"] == [
        ("before", None),
        ("inside 0 settings state ['earlier']", 0),
        ("between", None),
        ("inside 1 None None []", 1),
    ]
    assert plane.of(RankProgress)[0].progress.epoch == 0
    left = [each.arrival for each in plane.of(RankArrived) if each.arrival.fingerprint is None]
    assert sorted((each.rank, each.call) for each in left) == [(0, 2), (1, 2)]
    assert plane.of(TaskFault) == []
    final = {each.node_rank: [entry.path for entry in each.manifest.entries] for each in plane.of(OutputsIndexed)}
    assert final[0] == ["ck0.ckpt", "ck1.ckpt"]


def test_one_process_needs_no_torchrun(fleet: Fleet, bundled: Bundled) -> None:
    job = CommandJob(command=("python", "-m", "gpulayer.runtime", "train.py"), calls=calls())
    plane = with_half(bundled, job)
    fleet(plane)
    plane.go(go(0))
    plane.wait_for(settled(plane, 0))

    plane.change(caller_ended=True)

    (ended,) = plane.wait_ended()
    assert ended.state is TaskState.SUCCEEDED, plane.text()
    assert {line.rank for line in plane.kept_lines} == {0}


def test_a_failed_call_is_an_outcome_and_no_further_evidence(fleet: Fleet, bundled: Bundled) -> None:
    job = CommandJob(command=("python", "-m", "gpulayer.runtime", "train.py"), calls=calls())
    plane = with_half(bundled, job, "import half\nhalf.call('failed')\n")
    fleet(plane)
    plane.go(go(0))

    (ended,) = plane.wait_ended()

    (outcome,) = [each.outcome for each in plane.of(RankOutcome)]
    assert (outcome.status, outcome.error.qualname, outcome.error.message) == ("failed", "ValueError", "no")
    assert (ended.state, ended.reason, ended.exit_code) == (TaskState.FAILED, Reason.USER_ERROR, 1)
    assert plane.of(TaskFault) == []


def test_a_script_that_leaves_early_says_after_how_many_calls(fleet: Fleet, bundled: Bundled) -> None:
    job = CommandJob(command=("python", "-m", "gpulayer.runtime", "train.py"), calls=calls())
    plane = with_half(bundled, job, "print('nothing to do')\n")
    fleet(plane)

    (ended,) = plane.wait_ended()

    (arrived,) = [each.arrival for each in plane.of(RankArrived)]
    assert (arrived.rank, arrived.call, arrived.fingerprint) == (0, 0, None)
    assert ended.state is TaskState.SUCCEEDED


def test_a_rank_killed_while_it_holds_is_a_signal(fleet: Fleet, bundled: Bundled) -> None:
    job = CommandJob(command=("python", "-m", "gpulayer.runtime", "train.py"), calls=calls())
    plane = with_half(bundled, job, "import os; print('pid', os.getpid())\nimport half\nhalf.call()\n")
    fleet(plane)
    plane.go(go(0))
    plane.wait_for(settled(plane, 0))

    os.kill(int(plane.text().split()[1]), signal.SIGKILL)

    (ended,) = plane.wait_ended()
    (fault,) = plane.of(TaskFault)
    assert (fault.evidence.kind, fault.evidence.rank, fault.evidence.signal) == ("signal", 0, 9)
    assert (ended.reason, ended.exit_code) == (Reason.SIGNALLED, 137)


def test_what_a_rank_said_last_is_heard_out_when_the_plane_was_away_at_its_end(
    fleet: Fleet, bundled: Bundled, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "_HEAR_OUT_S", 0.2)
    script = f"""
        import half, os, time
        from gpulayer.spec.calls import Progress
        print("up", flush=True)
        while not os.path.exists({str(tmp_path / "go")!r}):
            time.sleep(0.02)
        half.link.progress(Progress(call=0, at=1.0, epoch=0))  # its worker can't pass that on, and hears no more meanwhile
        raise ValueError("mine")
    """
    plane = with_half(bundled, CommandJob(command=("python", "-m", "gpulayer.runtime", "train.py"), calls=calls()), script)
    fleet(plane, leased=True)
    plane.wait_for(lambda: "up" in plane.text())

    plane.change(away=True)
    (tmp_path / "go").touch()
    plane.wait_for(lambda: not [words for words in left_running(home).values() if "train.py" in words])
    refused = plane.refused
    plane.wait_for(lambda: plane.refused > refused + 4)
    plane.change(away=False)

    (ended,) = plane.wait_ended()
    assert (ended.reason, "ValueError: mine" in ended.sentence) == (Reason.USER_ERROR, True)


def test_a_checkpoint_that_a_killed_worker_had_not_made_known_is_made_known_by_the_next(
    fleet: Fleet, bundled: Bundled, home: Path, tmp_path: Path
) -> None:
    script = f"""
        import half, os, time
        print("up", flush=True)
        while not os.path.exists({str(tmp_path / "go")!r}):
            time.sleep(0.02)
        saved = half.context.output / "x.ckpt"
        saved.write_text("weights")
        half.link.await_kept(half.link.announce(str(saved), [str(saved)], epoch=3, step=7))
        saved.unlink()
        half.leave()
    """
    plane = with_half(bundled, CommandJob(command=("python", "-m", "gpulayer.runtime", "train.py"), calls=calls()), script)
    first = fleet(plane)
    plane.wait_for(lambda: "up" in plane.text())
    plane.change(away=True)
    (tmp_path / "go").touch()
    plane.wait_for(lambda: not [words for words in left_running(home).values() if "train.py" in words])
    first.die()
    plane.change(away=False)

    first.start_again()

    plane.wait_ended()
    (share,) = [each.share for each in plane.of(CheckpointAnnounced)]
    assert (share.path, share.epoch, share.step) == ("x.ckpt", 3, 7)
    assert plane.blobs[share.entries[0].blob.sha256] == b"weights"
    assert first.agents[-1].await_idle(20.0)
    assert not list((home / "tasks").iterdir())
