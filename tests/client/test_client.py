"""``gpulayer.Client`` and its handles: jobs submitted, waited for, read and taken up again, on a plane of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import gpulayer as gl
from gpulayer import errors
from gpulayer.spec.states import JobState, Reason
from tests.worker.standing import Started

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with functions, in which the person stands."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "work.py").write_text(
        textwrap.dedent("""
        import os, sys, pathlib

        def echo(*args, **kwargs):
            return [args, kwargs]

        def fail(text):
            raise ValueError(text)

        def third_time(path):
            mark = pathlib.Path(path)
            tries = len(mark.read_text()) if mark.exists() else 0
            mark.write_text("x" * (tries + 1))
            if tries < 2:
                raise OSError(5, "not yet")
            return tries + 1
        """)
    )
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def client(project: Path) -> Iterator[gl.Client]:
    with gl.Client() as opened:
        yield opened


def shell(script: str, **fields: object) -> gl.CommandJob:
    return gl.CommandJob(command=("/bin/sh", "-c", script), **fields)


def test_a_command_is_waited_for_read_and_its_files_are_fetched(client: gl.Client, tmp_path: Path) -> None:
    job = client.submit(shell("echo one; echo two >&2; echo made > out.txt"))

    assert job.result() is None
    assert job.status.state is JobState.SUCCEEDED
    assert sorted((line.stream, line.text) for line in job.logs()) == [("stderr", "two"), ("stdout", "one")]
    assert [each.path for each in job.artifacts] == ["node0/out.txt"]
    with job.open("node0/out.txt") as opened:
        assert opened.read() == b"made\n"
    assert job.download("node0/out.txt", tmp_path).read_text() == "made\n"
    with pytest.raises(errors.ArtifactNotFound, match=r"left no node0/x\.txt"):
        job.open("node0/x.txt")


def test_arguments_that_are_false_arrive_as_they_are(client: gl.Client) -> None:
    job = client.submit(gl.FunctionJob(function="work:echo", args=(0, "", False, None), kwargs={"a": [], "b": 0.5}))

    assert job.result() == [[0, "", False, None], {"a": [], "b": 0.5}]


def test_what_a_function_raised_is_raised_as_itself_with_where_it_came_from(client: gl.Client) -> None:
    job = client.submit({"kind": "function", "function": "work:fail", "args": ["no such thing"]})

    with pytest.raises(ValueError, match="no such thing") as caught:
        job.result()
    assert "raise ValueError(text)" in "".join(caught.value.__notes__)
    assert job.status.reason is Reason.USER_ERROR


def test_lines_and_events_come_while_it_runs(client: gl.Client, tmp_path: Path) -> None:
    go = tmp_path / "go"
    job = client.submit(shell(f"echo up; while [ ! -e {go} ]; do sleep 0.05; done; echo down"))
    lines = job.logs(follow=True)

    assert next(lines).text == "up"
    assert not job.status.ended
    go.touch()
    assert [line.text for line in lines] == ["down"]
    kinds = [event.kind for event in job.events(follow=True)]
    assert (kinds[0], kinds[-1]) == ("submitted", "ended")
    assert [event.kind for event in job.events()] == kinds


def test_waiting_has_an_end_and_cancelling_one_too(client: gl.Client) -> None:
    job = client.submit(shell("echo up; exec sleep 600"))
    next(job.logs(follow=True))

    with pytest.raises(TimeoutError, match=f"{job.id} has not ended in 0.1 s"):
        job.wait(timeout=0.1)
    job.cancel()
    assert job.wait().status.state is JobState.CANCELLED
    with pytest.raises(errors.JobCancelled):
        job.result()


def test_another_process_takes_up_a_job_by_the_beginning_of_its_id(client: gl.Client) -> None:
    job = client.submit(gl.FunctionJob(function="work:echo", args=(1,))).wait()
    program = f"import gpulayer as gl\nwith gl.Client() as c: print(c.job('{job.id[:9]}').result(), c.jobs()[0].id)"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == f"[[1], {{}}] {job.id}\n"


def test_a_hundred_jobs_of_four_threads_have_ids_of_their_own(client: gl.Client) -> None:
    with ThreadPoolExecutor(4) as pool:
        jobs = list(pool.map(lambda n: client.submit(shell("true", name=f"n{n}")), range(100)))

    assert len({job.id for job in jobs}) == 100
    assert all(job.wait().status.state is JobState.SUCCEEDED for job in jobs)


def test_a_key_makes_two_submissions_one_job(client: gl.Client) -> None:
    one, two = (client.submit(shell("true"), key="mine") for _ in range(2))
    assert one.id == two.id


def test_what_fails_is_tried_again_as_often_as_was_said(client: gl.Client, tmp_path: Path) -> None:
    job = client.submit(gl.FunctionJob(function="work:third_time", args=(str(tmp_path / "tries"),), max_attempts=3))

    assert job.result() == 3
    assert job.record.attempt == 3
    assert ["not yet" in str(event.facts) for event in job.events() if event.kind == "retry"] == [True, True]


def test_what_is_not_there_is_refused_before_anything_travels(client: gl.Client) -> None:
    with pytest.raises(errors.EntrypointMissing, match="There is no module nowhere"):
        client.submit(gl.FunctionJob(function="nowhere:main"))
    with pytest.raises(errors.EntrypointMissing, match=r"There is no script train\.py"):
        client.submit(gl.DistributedJob(entrypoint="train.py"))
    for entrypoint in ("-m nope.mod", "nope:main"):
        with pytest.raises(errors.EntrypointMissing, match="There is no module nope"):
            client.submit(gl.DistributedJob(entrypoint=entrypoint))
    assert client.jobs() == []


def test_a_command_brings_a_folder_when_one_is_named(client: gl.Client, project: Path) -> None:
    assert "work.py" in [line.text for line in client.submit(shell("ls"), source_dir=project).wait().logs()]
    assert [line.text for line in client.submit(shell("ls")).wait().logs()] == []


def test_closing_a_client_ends_what_ran_on_its_workers(home: Path, project: Path) -> None:
    with gl.Client() as client:
        job = client.submit(shell("echo up; exec sleep 600"))
        next(job.logs(follow=True))
    with gl.Client() as again:
        assert again.job(job.id).wait().status.state is JobState.CANCELLED


def test_a_job_that_is_left_goes_on_after_its_client(home: Path, project: Path, tmp_path: Path) -> None:
    go = tmp_path / "go"
    with gl.Client() as client, pytest.raises(errors.NobodyStays, match="gpulayer up"):
        client.submit(shell("true"), detach=True)
    with Started("--name", "stays") as worker:
        with gl.Client() as client:
            client.submit(shell("true")).wait()  # it has workers of its own as well
            job = client.submit(shell(f"while [ ! -e {go} ]; do sleep 0.05; done"), detach=True)
        go.touch()
        with gl.Client() as again:
            assert again.job(job.id).wait().status.state is JobState.SUCCEEDED
        worker.signal()
        assert worker.ended() == 0


def test_variables_that_are_named_are_forwarded(client: gl.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LATE", "set after the start")
    job = client.submit(shell("echo $LATE", forward_env=("LATE",)))
    assert [line.text for line in job.wait().logs()] == ["set after the start"]


def test_a_job_that_can_never_run_is_refused_with_the_reasons(client: gl.Client) -> None:
    with pytest.raises(errors.Unschedulable, match="needs 9 usable cuda"):
        client.submit(shell("true", resources={"accelerator": "cuda", "gpu_count": 9}))
    waits = client.submit(shell("true", resources={"accelerator": "cuda", "gpu_count": 9}, on_unschedulable="queue"))
    assert waits.explain().never
    assert any("needs 9 usable cuda" in why for why in waits.status.why)


def test_nothing_is_asked_of_a_plane_from_inside_of_a_job(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "GPULAYER_JOB_ID", "job-1")
    with pytest.raises(errors.CallRefused, match="can't submit jobs"):
        gl.Client().jobs()
