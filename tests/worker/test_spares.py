"""Guards that are started ahead of tasks: there when one is wanted, gone with the worker."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpulayer.worker import processes, spares
from gpulayer.worker.guarded import Guarded
from gpulayer.worker.spares import Spares

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spares]:
    """What this process keeps."""
    made = Spares()
    monkeypatch.setattr(spares, "OF_THIS_PROCESS", made)
    yield made
    made.close()


def test_one_that_waits_is_given_and_has_a_successor(kept: Spares) -> None:
    kept.keep(1, again=True)
    (waiting,) = kept._ready

    first = kept.take()

    assert first is waiting
    second = kept.take()
    assert second.process.pid != first.process.pid
    for each in (first, second):
        each.let_go()


def test_one_that_died_waiting_is_not_given(kept: Spares) -> None:
    kept.keep(1, again=False)
    (dead,) = kept._ready
    os.kill(dead.process.pid, signal.SIGKILL)
    dead.process.wait()

    given = kept.take()

    assert given.process.pid != dead.process.pid
    assert given.process.poll() is None
    given.let_go()
    dead.line.close()


def test_what_a_guard_that_waited_says_is_in_the_log_of_its_task(kept: Spares, tmp_path: Path) -> None:
    kept.keep(1, again=False)
    log = tmp_path / "guard.log"
    guard = Guarded(log, lambda: None)

    guard._say(kind="start")  # without what belongs to it

    assert guard.await_over(30.0)
    assert guard.lost
    assert "KeyError: 'spool'" in log.read_text()
    guard.close()


def test_those_that_wait_end_with_their_worker() -> None:
    program = """
        import os, signal
        from gpulayer.worker import spares
        spares.OF_THIS_PROCESS.keep(2, again=False)
        print(*(each.process.pid for each in spares.OF_THIS_PROCESS._ready), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True, check=False)
    pids = list(map(int, done.stdout.split()))
    assert len(pids) == 2
    for pid in pids:
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        assert select.select([handle], [], [], 30.0)[0], processes.stat(pid)
        os.close(handle)
