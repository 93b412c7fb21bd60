"""Workers of a self-hosted plane: they join once, keep their lease, and outlive the server's troubles and their own."""

from __future__ import annotations

import os
import signal
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpulayer import plane as planes
from gpulayer.client import inputs
from gpulayer.plane import Plane
from gpulayer.spec.job import CommandJob, DistributedJob
from gpulayer.spec.states import JobState, Reason
from gpulayer.spec.tokens import TokenRequest
from gpulayer.worker import processes
from tests.server.running import Server
from tests.waiting import wait_for
from tests.worker.standing import Started, ended, printed, run, signals

REMOTE: dict[str, Any] = {"placement": {"target": "remote"}}


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    started: list[Server] = []

    def start(*options: str) -> Server:
        (tmp_path / "server").mkdir()
        started.append(Server(tmp_path / "server", *options).start())
        return started[-1]

    yield start
    for each in started:
        each.close()


@pytest.fixture
def opened() -> Iterator[Callable[[Server], Plane]]:
    """Open a server's plane as an admin."""
    found: list[Plane] = []

    def open_it(server: Server) -> Plane:
        found.append(planes.open(server.url, process="caller", token=server.token()))
        return found[-1]

    yield open_it
    for each in found:
        each.close()


@pytest.fixture
def join(tmp_path: Path) -> Callable[..., Started]:
    """Start a worker with a join token."""

    def start(server: Server, *options: str) -> Started:
        token = tmp_path / "join-token"
        token.write_text(server.token("join"))
        return Started(*options, at=("--url", server.url, "--token-file", str(token)))

    return start


def until(found: Callable[[], Any]) -> Any:
    return wait_for(found, within=30.0)


def state_of(plane: Plane) -> str:
    (worker,) = plane.workers()
    return worker.state


def test_it_joins_once_and_later_starts_need_no_token(
    serve: Callable[..., Server], opened: Callable[[Server], Plane], home: Path
) -> None:
    server = serve()
    plane = opened(server)
    token = home.parent / "token"
    token.write_text(plane.create_token(TokenRequest(role="join", single_use=True)).token)  # type: ignore[attr-defined]
    ids = []
    for _ in range(2):
        with Started("--name", "red", at=("--url", server.url), GPULAYER_TOKEN_FILE=str(token)) as worker:
            job = ended(plane, run(plane, "echo hi > out", **REMOTE).id)
            assert (job.state, job.tasks[0].worker_name) == (JobState.SUCCEEDED, "red")
            ids.append(job.tasks[0].worker_id)
            token.unlink(missing_ok=True)
            assert ids[-1] in worker.said
            worker.signal()
            assert worker.ended() == 0
    assert ids[0] == ids[1]
    assert [each.path for each in plane.artifacts(job.id)] == ["node0/out"]


def test_files_of_the_caller_and_of_other_jobs_are_its_inputs(
    serve: Callable[..., Server], opened: Callable[[Server], Plane], join: Callable[..., Started], tmp_path: Path
) -> None:
    server = serve()
    plane = opened(server)
    (tmp_path / "mine.sh").write_text("echo mine")
    (tmp_path / "mine.sh").chmod(0o755)
    with join(server, "--name", "one", "--once"):
        made = ended(plane, run(plane, "mkdir out; echo made > out/a", **REMOTE).id)
    with join(server, "--name", "two"):  # a worker may ask of jobs that it worked on, and of no other
        wanted = (
            {"uri": f"file://{tmp_path}/mine.sh", "path": "mine.sh"},
            {"uri": f"gpulayer://{made.id}/node0/out", "path": "deep/out"},
            {"uri": f"gpulayer://{made.id}/node0/out/a", "path": "alone"},
        )
        script = "cd $GPULAYER_INPUT_DIR; cat deep/out/a alone; /bin/sh $GPULAYER_INPUT_DIR/mine.sh"
        job = CommandJob(command=("/bin/sh", "-c", script), inputs=wanted, **REMOTE)
        found = ended(plane, plane.submit(inputs.carried(plane, job)).id)
    assert found.state is JobState.SUCCEEDED, found.sentence
    assert [line.text for line in plane.lines(found.id)] == ["made", "made", "mine"]


def test_without_a_token_it_says_how_to_get_one(serve: Callable[..., Server]) -> None:
    server = serve()
    with Started(at=("--url", server.url)) as worker:
        assert worker.ended() == 1
        assert "gpulayer tokens create --role join" in worker.words()


def test_a_second_worker_of_a_name_is_refused_and_its_join_token_stays_good(
    serve: Callable[..., Server], opened: Callable[[Server], Plane], join: Callable[..., Started], tmp_path: Path
) -> None:
    server = serve()
    plane = opened(server)
    with join(server, "--name", "red"):
        (known,) = plane.workers()
        token = tmp_path / "once"
        token.write_text(plane.create_token(TokenRequest(role="join", single_use=True)).token)  # type: ignore[attr-defined]
        at = ("--url", server.url, "--token-file", str(token))
        with Started("--name", "red", "--work-dir", str(tmp_path / "other"), at=at) as second:
            assert second.ended() == 1
            words = second.words()
        assert f"{known.info.id} is a live worker of the name red" in words
        assert "--name" in words
        with Started("--name", "blue", "--work-dir", str(tmp_path / "other"), at=at):
            assert {each.info.name for each in plane.workers()} == {"red", "blue"}


def test_a_job_outlives_a_killed_server_and_every_line_comes_once(
    serve: Callable[..., Server], opened: Callable[[Server], Plane], join: Callable[..., Started], tmp_path: Path
) -> None:
    server = serve()
    plane = opened(server)
    with join(server):
        job = run(
            plane,
            f"echo up; {signals(tmp_path / 'go')}; echo meanwhile; touch {tmp_path / 'said'}; sleep 1; echo end",
            **REMOTE,
        )
        printed(plane, job.id, "up")
        port = server.port
        server.kill()
        (tmp_path / "go").touch()
        until((tmp_path / "said").exists)
        server.start(port)

        found = ended(plane, job.id)

    assert found.state is JobState.SUCCEEDED
    assert [line.text for line in plane.lines(job.id)] == ["up", "meanwhile", "end"]


def test_told_to_end_with_nothing_to_do_it_does_not_wait_for_a_server_that_is_gone(
    serve: Callable[..., Server], join: Callable[..., Started]
) -> None:
    server = serve()
    with join(server) as worker:
        server.kill()
        worker.signal()
        assert worker.process.wait(20.0) == 0  # as long as it waited for the server before


def test_a_removed_worker_is_dismissed_and_comes_back_only_by_a_new_join_token(
    serve: Callable[..., Server], opened: Callable[[Server], Plane], join: Callable[..., Started], home: Path
) -> None:
    server = serve()
    plane = opened(server)
    with join(server, "--name", "red") as worker:
        (known,) = plane.workers()
        plane.remove_worker(known.info.id)
        assert worker.ended() == 3
    with join(server, "--name", "red") as worker:
        assert worker.ended() == 1
        words = worker.words()
    identity = home / "workers" / "red" / "identity.json"
    assert "was removed from the plane by an admin" in words
    assert f"remove {identity}" in words
    assert "gpulayer tokens create --role join" in words
    assert plane.workers() == []

    identity.unlink()
    with join(server, "--name", "red"):
        (again,) = plane.workers()
    assert again.info.id != known.info.id


def test_a_worker_that_is_removed_during_a_task_ends_it_clears_up_and_says_so_in_a_line(
    serve: Callable[..., Server], opened: Callable[[Server], Plane], join: Callable[..., Started], home: Path
) -> None:
    server = serve()
    plane = opened(server)
    with join(server, "--name", "red") as worker:
        job = run(plane, "echo up; trap '' TERM; while :; do echo on; echo on >> file; sleep 0.01; done", **REMOTE)
        printed(plane, job.id, "on")
        ranks = [each.pid for each in processes.descendants(worker.process.pid) if each.name == "sh"]
        assert ranks

        plane.remove_worker(plane.workers()[0].info.id)

        assert worker.ended() == 3
        words = worker.words()
    assert not any((seen := processes.stat(pid)) and seen.alive for pid in ranks)
    assert not list((home / "workers" / "red" / "tasks").iterdir())
    assert words.count("this worker was removed from the plane by an admin; it ends its tasks and leaves") == 1
    assert words.count(f"nothing more of {job.id}") == 1
    for alarming in ("Traceback", "ERROR", "GPULAYER_TOKEN", "took the identity"):
        assert alarming not in words
    found = ended(plane, job.id)
    assert (found.state, found.sentence) == (JobState.LOST, "red was removed by an admin.")


def test_a_worker_that_is_removed_from_a_gang_leaves_quietly_and_is_named_as_the_cause(
    serve: Callable[..., Server], opened: Callable[[Server], Plane], join: Callable[..., Started], home: Path, tmp_path: Path
) -> None:
    server = serve()
    plane = opened(server)
    with zipfile.ZipFile(tmp_path / "bundle.zip", "w") as bundle:
        bundle.writestr(
            "train.py", "import time\nprint('up', flush=True)\nwhile True: print('on', flush=True); time.sleep(0.01)\n"
        )
    source = plane.put_blob(tmp_path / "bundle.zip").sha256
    with join(server, "--name", "red"), join(server, "--name", "blue") as blue:
        until(lambda: len(plane.workers()) == 2)
        job = plane.submit(DistributedJob(entrypoint="train.py", num_workers=2, source=source, **REMOTE))
        until(lambda: {line.rank for line in plane.lines(job.id) if line.text == "on"} == {0, 1})

        plane.remove_worker(next(each.info.id for each in plane.workers() if each.info.name == "blue"))

        assert blue.ended() == 3
        words, found = blue.words(), ended(plane, job.id)
    node = next(task.node_rank for task in found.tasks if task.worker_name == "blue")
    assert (found.reason, found.sentence) == (Reason.WORKER_LOST, f"blue (node {node}) was removed by an admin.")
    assert not [alarming for alarming in ("Traceback", "ERROR", "GPULAYER_TOKEN") if alarming in words], words
    assert not list((home / "workers" / "blue" / "tasks").iterdir())


def test_a_halted_worker_is_lost_its_ranks_are_killed_and_it_is_back_when_it_is_let_go_on(
    serve: Callable[..., Server], opened: Callable[[Server], Plane], join: Callable[..., Started]
) -> None:
    server = serve("--lease-s", "3")
    plane = opened(server)
    with join(server) as worker:
        job = run(plane, "trap '' TERM; echo up; while :; do sleep 0.05; done", **REMOTE)
        printed(plane, job.id, "up")
        ranks = [each.pid for each in processes.descendants(worker.process.pid) if each.name == "sh"]
        assert ranks

        worker.signal(signal.SIGSTOP)

        found = ended(plane, job.id)
        assert (found.state, found.reason) == (JobState.LOST, Reason.WORKER_LOST)
        until(lambda: not any((seen := processes.stat(pid)) and seen.alive for pid in ranks))
        worker.signal(signal.SIGCONT)
        until(lambda: state_of(plane) == "online")
        assert ended(plane, run(plane, "true", **REMOTE).id).state is JobState.SUCCEEDED
        worker.signal()
        assert worker.ended() == 0


def test_a_killed_worker_that_comes_back_tells_what_became_of_its_task(
    serve: Callable[..., Server], opened: Callable[[Server], Plane], join: Callable[..., Started]
) -> None:
    server = serve()  # its lease is long: without a word the job would run on for the plane
    plane = opened(server)
    with join(server) as worker:
        job = run(plane, "echo up; echo file > out; sleep 600", **REMOTE)
        printed(plane, job.id, "up")
        worker.process.kill()
        worker.ended()

    with join(server):
        found = ended(plane, job.id)

    assert (found.state, found.reason) == (JobState.LOST, Reason.WORKER_LOST)
    assert found.sentence.endswith(": its worker ended without a word, and it was killed.")
    assert [each.path for each in plane.artifacts(job.id)] == ["node0/out"]


def test_a_newer_incarnation_has_the_older_stop_everything_and_leave(
    serve: Callable[..., Server], opened: Callable[[Server], Plane], join: Callable[..., Started], home: Path, tmp_path: Path
) -> None:
    server = serve()
    plane = opened(server)
    with join(server, "--work-dir", str(tmp_path / "a")) as older:
        job = run(plane, "echo up; sleep 600", **REMOTE)
        printed(plane, job.id, "up")
        (tmp_path / "b").mkdir()
        (tmp_path / "b" / "identity.json").write_bytes((tmp_path / "a" / "identity.json").read_bytes())

        with Started("--work-dir", str(tmp_path / "b"), at=("--url", server.url)):
            assert older.ended() == 3
            assert "took the identity" in older.words()
            assert ended(plane, job.id).state is JobState.LOST


def test_two_workers_with_folders_of_their_own_meet_in_one_job(
    serve: Callable[..., Server], opened: Callable[[Server], Plane], join: Callable[..., Started], tmp_path: Path
) -> None:
    server = serve()
    plane = opened(server)
    (tmp_path / "train.py").write_text(
        "import torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "x = torch.ones(1); dist.all_reduce(x); print('sum', int(x), flush=True)\n"
        "import os; open(f'rank{dist.get_rank()}', 'w').close()\n"
        "print('in', os.environ['GPULAYER_OUTPUT_DIR'], flush=True)\n"
    )
    with zipfile.ZipFile(tmp_path / "bundle.zip", "w") as bundle:
        bundle.write(tmp_path / "train.py", "train.py")
    source = plane.put_blob(tmp_path / "bundle.zip").sha256
    with join(server, "--name", "red") as red, join(server, "--name", "blue") as blue:
        until(lambda: len(plane.workers()) == 2)
        job = plane.submit(DistributedJob(entrypoint="train.py", num_workers=2, source=source, **REMOTE))
        found = ended(plane, job.id)
        assert found.state is JobState.SUCCEEDED, (found.sentence, [line.text for line in plane.lines(job.id)])
        for worker in (red, blue):  # they clear up after the job's end is known, and leave when that is done
            worker.signal()
            assert worker.ended() == 0
    where = f"in /tmp/gpulayer-{os.getuid()}/work/{job.id}.1"
    said = [line.text for line in plane.lines(job.id) if line.rank is not None]
    assert sorted(said) == [where, f"{where}.1", "sum 2", "sum 2"]  # both on one machine: see the first's path
    assert sorted(each.path for each in plane.artifacts(job.id)) == ["node0/rank0", "node1/rank1"]
    assert not list(Path(f"/tmp/gpulayer-{os.getuid()}/work").glob(f"{job.id}.*"))
