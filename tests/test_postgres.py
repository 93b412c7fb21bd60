"""The throwaway PostgreSQL of the tests ends with them, however they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.postgres import Cluster
from tests.waiting import wait_for

HOLDS = """
import sys
from tests.postgres import Cluster, programs
cluster = Cluster(programs())
print(cluster.folder, cluster.ask("SELECT 1"), flush=True)
sys.stdin.read()
"""


def until(true: Callable[[], object]) -> None:
    wait_for(true, within=20.0)


def processes_of(folder: Path) -> list[int]:
    """Return the server's processes that name the folder on their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if os.fsencode(folder) in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_server_ends_with_the_run_that_holds_it(postgres: Cluster, how: signal.Signals) -> None:
    root = Path(__file__).parents[1]
    env = {key: value for key, value in os.environ.items() if key != "GPULAYER_HOME"}
    argv = [sys.executable, "-c", HOLDS]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(argv, cwd=root, env=env, text=True, **pipes) as run:  # type: ignore[call-overload]
        assert run.stdout is not None
        folder = Path(run.stdout.readline().split()[0])
        assert len(processes_of(folder)) >= 2
        run.send_signal(how)
    until(lambda: not processes_of(folder) and not folder.exists())


def test_a_server_ends_with_its_keeper(postgres: Cluster, tmp_path: Path) -> None:
    root = Path(__file__).parents[1]
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS], cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        folder = Path(run.stdout.readline().split()[0])
        [keeper] = [pid for pid in processes_of(folder) if b"postgres_server" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        os.kill(keeper, signal.SIGKILL)
        until(lambda: not processes_of(folder))
        run.kill()
    subprocess.run(["rm", "-rf", folder], check=True)
