"""``gpulayer gc`` forgets what ended long ago; ``jobs show`` says what a job takes of the disk."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import gpulayer as gl
from gpulayer import plane as planes
from gpulayer.errors import InvalidJob
from gpulayer.plane import Plane
from tests.cli.conftest import Cli

pytestmark = pytest.mark.timeout(120)

Told = Callable[..., Any]


@pytest.fixture
def plane(home: Path) -> Iterator[Plane]:
    opened = planes.open(home, process="cli")
    yield opened
    opened.close()


@pytest.fixture
def done(home: Path) -> Iterator[Callable[..., str]]:
    """Run a job to its end; returns its id."""
    with gl.Client() as client:

        def run(script: str = "echo line; head -c 3000 /dev/urandom > out.bin", **fields: Any) -> str:
            return client.submit(gl.CommandJob(command=("sh", "-c", script), **fields)).wait().id

        yield run


def test_what_a_job_takes_is_shown(done: Callable[..., str], cli: Cli, told: Told) -> None:
    job = done()

    assert told("jobs", "show", job)["disk"]["files"] == 3000
    assert 0 < told("jobs", "show", job)["disk"]["lines"] < 3000
    assert "3.0 kB of files" in cli("jobs", "show", job).stdout


def test_old_jobs_are_forgotten_and_said_before(done: Callable[..., str], cli: Cli, told: Told, plane: Plane) -> None:
    job = done()
    assert "No job is that old." in cli("gc").stderr

    would = cli("gc", "--older-than", "0s", "--dry-run")
    assert job in would.stdout
    assert "1 job, at most 3." in would.stderr
    assert "would be forgotten" in would.stderr
    assert plane.job(job).id == job

    assert [each["id"] for each in told("gc", "--older-than", "0s")] == [job]
    assert plane.jobs() == []


def test_jobs_that_run_that_are_labelled_or_that_are_the_newest_stay(done: Callable[..., str], cli: Cli, plane: Plane) -> None:
    kept, old, new = done(labels={"keep": "paper"}), done("true"), done("true")
    running = plane.submit(gl.CommandJob(command=("true",), on_unschedulable="queue"))

    assert cli("gc", "--older-than", "0s", "--keep", "2", "-q").stdout == f"{old}\n"
    assert {job.id for job in plane.jobs()} == {kept, new, running.id}


def test_a_file_that_another_job_refers_to_outlives_its_own(
    done: Callable[..., str], cli: Cli, plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = done("echo made > out.txt")
    with gl.Client() as client:
        waits = client.submit(
            gl.CommandJob(
                command=("sh", "-c", "cat $GPULAYER_INPUT_DIR/in.txt"),
                inputs=[{"uri": f"gpulayer://{first}/node0/out.txt", "path": "in.txt"}],
                resources={"memory_gb": 1e9},
                on_unschedulable="queue",
            )
        )
        (digest,) = {each.blob.sha256 for each in plane.artifacts(first)}
        assert cli("gc", "--older-than", "0s", "-q").stdout == f"{first}\n"
        later = time.time() + 3 * 24 * 3600
        plane._keeper.collect(later, {digest})  # type: ignore[attr-defined]

        assert plane.has_blob(digest)
        plane.cancel(waits.id)
        plane.remove(waits.id)
        plane._keeper.collect(later, {digest})  # type: ignore[attr-defined]
        assert not plane.has_blob(digest)


@pytest.mark.parametrize("span", ["30", "x", "-1d", "1w"])
def test_a_span_that_is_none_is_refused(cli: Cli, span: str) -> None:
    assert "write 30d, 12h, 90m or 0s" in cli("gc", "--older-than", span, exits=2).stderr


def test_files_of_an_ended_job_are_forgotten_one_by_one_or_by_folder(
    done: Callable[..., str], cli: Cli, told: Told, plane: Plane
) -> None:
    job = done("mkdir a b; echo 1 > a/one; echo 2 > a/two; echo 3 > b/three; echo 4 > four")

    assert cli("artifacts", "rm", job, "node0/a", "node0/four").stdout.split() == ["node0/a/one", "node0/a/two", "node0/four"]
    assert [each["path"] for each in told("artifacts", "ls", job)] == ["node0/b/three"]
    assert "left nothing at node0/a" in cli("artifacts", "rm", job, "node0/a", exits=2).stderr
    waits = plane.submit(gl.CommandJob(command=("true",), on_unschedulable="queue"))
    with pytest.raises(InvalidJob, match="is still queued"):
        plane.remove_artifacts(waits.id, ["node0/x"])
