"""``gpulayer.Client`` at a self-hosted plane: the same as on this machine, named by variables."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpulayer as gl
from gpulayer.spec.states import JobState
from tests.server.running import Server
from tests.worker.standing import Started

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def worker(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Started]:
    """A worker of the plane that this process's variables name."""
    (tmp_path / "join").write_text(server.token("join"))
    with Started("--slots", "2", at=("--url", server.url, "--token-file", str(tmp_path / "join"))) as started:
        monkeypatch.setenv("GPULAYER_URL", server.url)
        monkeypatch.setenv("GPULAYER_TOKEN", server.token("user"))
        yield started
        started.signal()
        assert started.ended() == 0


def test_a_job_goes_on_after_its_client_and_is_taken_up_by_another(
    worker: Started, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "work.py").write_text("def add(a, b):\n    print('adding')\n    return a + b\n")
    with gl.Client() as client:
        job = client.submit(gl.FunctionJob(function="work:add", args=(1, 2)))
    with gl.Client() as other:
        again = other.job(job.id)
        assert again.result() == 3
        assert [line.text for line in again.logs()] == ["adding"]
        assert next(again.events()).kind == "submitted"


def test_what_jobs_take_and_which_ended_is_told_from_afar(worker: Started) -> None:
    with gl.Client() as client:
        done = client.submit(gl.CommandJob(command=("sh", "-c", "echo line; echo made > out.txt"))).wait()
        waits = client.submit(gl.CommandJob(command=("true",), resources={"memory_gb": 1e9}, on_unschedulable="queue"))

        assert client.plane.size(done.id).files == len("made\n")
        assert client.plane.size(done.id).lines > 0
        assert [job.id for job in client.plane.ended_jobs(time.time() + 60)] == [done.id]
        assert client.plane.ended_jobs(1.0) == []
        assert [each.path for each in client.plane.remove_artifacts(done.id, ["node0/out.txt"])] == ["node0/out.txt"]
        assert done.artifacts == []
        waits.cancel()


def test_two_threads_wait_for_two_jobs_of_one_client(worker: Started) -> None:
    with gl.Client() as client:
        jobs = [client.submit(gl.CommandJob(command=("sh", "-c", f"exit {code}"))) for code in (0, 3)]
        states = {}

        def wait(job: gl.Job) -> None:
            states[job.id] = job.wait().status.state

        threads = [threading.Thread(target=wait, args=(job,)) for job in jobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert [states[job.id] for job in jobs] == [JobState.SUCCEEDED, JobState.FAILED]
