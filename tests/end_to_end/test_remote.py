"""A caller whose plane is a server and whose workers are programs of their own: an address and a token are all it has."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from gpulayer import plane as planes
from gpulayer.plane import Plane
from gpulayer.spec.records import JobRecord
from gpulayer.spec.states import JobState, Reason
from tests.end_to_end.processes import SCRIPT_S, await_ends
from tests.server.running import Server
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(3 * SCRIPT_S)

PROGRAMS = Path(__file__).parent / "programs"
INTERRUPTED = 130
GPULAYER = (sys.executable, "-m", "gpulayer")


class Fleet:
    """A server and workers at it."""

    def __init__(self, folder: Path, count: int, *options: str) -> None:
        self._workers: dict[str, subprocess.Popen[bytes]] = {}
        self._folder = folder
        with self._home():
            self.server = Server(folder, *options).start()
        for at in range(count):
            self.start_worker(f"box-{at}")

    def start_worker(self, name: str) -> None:
        token = self._folder / f"{name}.token"
        token.write_text(self.server.token("join"))
        command = [*GPULAYER, "--url", self.server.url, "--token-file", str(token), "worker", "start", "--name", name]
        with self._home(), (self._folder / f"{name}.log").open("ab") as log:
            worker = subprocess.Popen(
                [*command, "--work-dir", str(self._folder / name), "--advertise-address", "127.0.0.1"], stdout=log, stderr=log
            )
        self._workers[name] = worker

    @property
    def environment(self) -> dict[str, str]:
        """What a caller has of it."""
        return {"GPULAYER_URL": self.server.url, "GPULAYER_TOKEN": self.server.token("user")}

    def plane(self) -> Plane:
        return planes.open(self.server.url, token=self.server.token())

    def wait_until_up(self) -> None:
        with closing(self.plane()) as plane:
            wait_for(lambda: len(plane.workers()) == len(self._workers), within=SCRIPT_S, what="the workers register")

    def kill_worker(self, name: str) -> None:
        self._workers[name].kill()
        self._workers[name].wait()

    def restart(self) -> None:
        """Kill the server, and start it anew at the same address."""
        port = self.server.port
        self.server.kill()
        with self._home():
            self.server.start(port)

    @contextmanager
    def _home(self) -> Iterator[None]:
        """What runs for longer than one test has a home of its own."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("GPULAYER_HOME", str(self._folder / "home"))
            yield

    def said(self) -> str:
        return "\n".join(path.read_text(errors="replace") for path in sorted(self._folder.glob("*.log")))

    def close(self) -> None:
        for worker in self._workers.values():
            worker.send_signal(signal.SIGTERM)
        await_ends(self._workers.values())
        self.server.close()


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A server with two workers for the tests of this file."""
    made = Fleet(tmp_path_factory.mktemp("fleet"), 2)
    try:
        made.wait_until_up()
        yield made
    finally:
        made.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a user with the programs in it."""
    folder = tmp_path / "caller"
    folder.mkdir()
    for name in ("whole.py", "remote.py", "between.py", "leaving.py", "again.py"):
        shutil.copy(PROGRAMS / name, folder)
    (folder / "pyproject.toml").touch()
    return folder


def caller_environment(fleet: Fleet, folder: Path, **env: str) -> dict[str, str]:
    """The environment of a person who has an address and a token, and otherwise nothing of ours."""
    bare = {name: value for name, value in os.environ.items() if not name.startswith("GPULAYER_")}
    given = {"HOME": str(folder.parent), "OMP_NUM_THREADS": "1", "OUTCOME": str(folder.parent / "outcome.pt"), "SEED": "3"}
    return {**bare, **given, **fleet.environment, **env}


def start(fleet: Fleet, folder: Path, *argv: str, **env: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *argv],
        cwd=folder,
        env=caller_environment(fleet, folder, **env),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )


def run(fleet: Fleet, folder: Path, *argv: str, **env: str) -> tuple[dict[str, Any], str]:
    """Run a program to its end; what it wrote, and the job that it says it had."""
    process = start(fleet, folder, *argv, **env)
    out, err = process.communicate(timeout=SCRIPT_S)
    assert process.returncode == 0, out + err + fleet.said()
    return torch.load(folder.parent / "outcome.pt", weights_only=True), out.rpartition("JOB ")[2].strip()


def ended(plane: Plane, job_id: str) -> JobRecord:
    return wait_for(lambda: (job := plane.job(job_id)).state.terminal and job, within=SCRIPT_S, what=f"{job_id} ends")


SEEDED = json.dumps({"forward_env": ["SEED", "MAX_EPOCHS"]})


def test_a_remote_fit_equals_torchrun(fleet: Fleet, folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "torchrun" / "caller"
    shutil.copytree(folder, other)
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4", "remote.py")
    expected, _ = run(fleet, other, *torchrun, ACCELERATOR="cpu", DEVICES="4")

    got, job_id = run(fleet, folder, "remote.py", JOB=SEEDED)

    for part in ("fitted", "best"):
        for name, value in expected[part].items():
            assert torch.equal(got[part][name], value), (part, name)
    assert {name: got[name] for name in ("metrics", "test", "counts", "paths")} == {
        name: expected[name] for name in ("metrics", "test", "counts", "paths")
    }
    ours = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert ours == {str(path.relative_to(other)) for path in other.rglob("*") if path.is_file()}
    with closing(fleet.plane()) as plane:
        job = ended(plane, job_id)
        assert (job.state, job.spec.placement.target) == (JobState.SUCCEEDED, "remote")
        assert len({task.worker_id for task in job.tasks}) == 2


def test_devices_auto_is_one_process_on_workers_without_gpus(fleet: Fleet, folder: Path) -> None:
    process = start(fleet, folder, "remote.py", JOB=SEEDED, DEVICES="auto", MAX_EPOCHS="1")
    out, err = process.communicate(timeout=SCRIPT_S)
    assert process.returncode == 0, out + err + fleet.said()
    job_id = out.rpartition("JOB ")[2].strip()
    assert f"{job_id} on 2 workers x auto processes" in err
    assert f"{job_id} has 1 process on each worker" in err
    with closing(fleet.plane()) as plane:
        job = ended(plane, job_id)
    assert (job.state, job.shape, job.world_size) == (JobState.SUCCEEDED, (2, 1), 2)


def test_another_job_goes_on_from_a_jobs_checkpoint(fleet: Fleet, folder: Path) -> None:
    first, job_id = run(fleet, folder, "remote.py", JOB=SEEDED, MAX_EPOCHS="1", DEVICES="1")
    again, next_id = run(fleet, folder, "remote.py", f"gpulayer://{job_id}/last", JOB=SEEDED, MAX_EPOCHS="2", DEVICES="1")
    assert again["counts"] == [2, 2 * first["counts"][1]]
    with closing(fleet.plane()) as plane:  # read where the worker put what was sent: other machines have no file of ours
        assert any("/checkpoint-0/" in line.text for line in plane.lines(next_id))


def test_a_later_job_of_a_script_begins_with_the_files_of_the_earlier_one(fleet: Fleet, folder: Path) -> None:
    outcome, job_id = run(fleet, folder, "between.py")
    assert outcome["first"] != job_id
    assert not all(torch.equal(outcome["last"][name], value) for name, value in outcome["fitted"].items())
    with closing(fleet.plane()) as plane:
        job = ended(plane, job_id)
        files = [entry.path for entry in job.spec.calls.files] if job.spec.calls is not None else []
        assert (job.state, files) == (JobState.SUCCEEDED, ["checkpoints/epoch=0-step=4.ckpt"])


def test_a_variable_that_was_not_forwarded_is_named(fleet: Fleet, folder: Path) -> None:
    process = start(fleet, folder, "remote.py", DEVICES="1")
    err = process.communicate(timeout=SCRIPT_S)[1]
    assert process.returncode == 1
    assert "KeyError: 'SEED'" in err
    assert "forward_env=['SEED']" in err


def test_a_file_that_did_not_travel_is_named_with_the_rule(fleet: Fleet, folder: Path) -> None:
    (folder / ".gitignore").write_text("data/\n")
    (folder / "data").mkdir()
    (folder / "data" / "train.csv").touch()
    reading = json.dumps({"forward_env": ["SEED", "READ"]})
    process = start(fleet, folder, "remote.py", JOB=reading, READ="data/train.csv", DEVICES="1")
    err = process.communicate(timeout=SCRIPT_S)[1]
    assert "No such file or directory: 'data/train.csv'" in err
    assert "did not travel with the job (.gitignore: data/)" in err


def test_the_job_of_a_killed_caller_is_stopped_when_its_time_is_up(fleet: Fleet, folder: Path) -> None:
    options = json.dumps({"forward_env": ["SEED", "ENDLESS"], "caller_lease_s": 3, "name": "orphan", "grace_s": 1})
    process = start(fleet, folder, "remote.py", JOB=options, ENDLESS="1", DEVICES="1")
    with closing(fleet.plane()) as plane:
        job = wait_for(
            lambda: next((job for job in plane.jobs() if job.spec.name == "orphan" and job.state is JobState.RUNNING), None),
            within=SCRIPT_S,
            what="the job runs",
        )
        process.kill()
        process.communicate()
        found = ended(plane, job.id)
        assert (found.state, found.reason) == (JobState.CANCELLED, Reason.CALLER_GONE)


def gpulayer(fleet: Fleet, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = caller_environment(fleet, folder)
    return subprocess.run(
        [*GPULAYER, *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=SCRIPT_S, check=False
    )


def test_commands_functions_and_scripts_run_there(fleet: Fleet, folder: Path) -> None:
    (folder / "given.txt").write_text("given")
    done = gpulayer(
        fleet, folder, "run", "--forward-env", "SEED", "--", "sh", "-c", "echo seed $SEED; cat given.txt > made.txt"
    )
    assert (done.returncode, done.stdout) == (0, "seed 3\n"), done.stderr
    job_id = json.loads(gpulayer(fleet, folder, "jobs", "ls", "--json").stdout)[0]["id"]
    assert gpulayer(fleet, folder, "artifacts", "cat", job_id, "node0/made.txt").stdout == "given"
    assert gpulayer(fleet, folder, "jobs", "logs", job_id).stdout == "seed 3\n"

    (folder / "sums.py").write_text("def add(a, b):\n    return a + b\n")
    assert gpulayer(fleet, folder, "call", "sums:add", "--arg", "1", "--kwarg", "b=2").stdout == "3\n"

    (folder / "ranks.py").write_text("import os\nprint('rank', os.environ['RANK'])\n")
    done = gpulayer(fleet, folder, "launch", "ranks.py", "--num-workers", "2")
    assert sorted(done.stdout.splitlines()) == ["[rank0] rank 0", "[rank1] rank 1"], done.stderr


def test_a_person_who_interrupts_is_asked_and_may_leave_the_job(fleet: Fleet, folder: Path) -> None:
    ours, theirs = pty.openpty()
    running = subprocess.Popen(
        [*GPULAYER, "run", "--name", "asked", "--", "sh", "-c", "echo up; exec sleep 600"],
        cwd=folder,
        env=caller_environment(fleet, folder),
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
    )
    os.close(theirs)
    assert running.stdout is not None
    assert running.stdout.readline() == "up\n"
    running.send_signal(signal.SIGINT)
    said = read_until(ours, "[l]eave it running")
    os.write(ours, b"l\n")
    said += read_until(ours, "goes on")
    assert running.wait(30) == INTERRUPTED, said
    running.stdout.close()
    os.close(ours)
    with closing(fleet.plane()) as plane:
        (job,) = (job for job in plane.jobs() if job.spec.name == "asked")
        assert job.state is JobState.RUNNING
        plane.cancel(job.id, kill=True)
        assert ended(plane, job.id).state is JobState.CANCELLED


def read_until(terminal: int, words: str) -> str:
    said = ""
    deadline = time.monotonic() + SCRIPT_S
    while words not in said:
        assert time.monotonic() < deadline, said
        if select.select([terminal], [], [], 1.0)[0]:
            said += os.read(terminal, 4096).decode()
    return said


def test_a_server_that_is_killed_and_started_again_is_not_seen(fleet: Fleet, folder: Path) -> None:
    command = [*GPULAYER, "run", "--", "sh", "-c", "echo up; while [ ! -e goes ]; do sleep 0.1; done; echo done"]
    command[-1] = command[-1].replace("goes", str(folder / "goes"))
    running = subprocess.Popen(
        command, cwd=folder, env=caller_environment(fleet, folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert running.stdout is not None
    assert running.stdout.readline() == "up\n"
    fleet.restart()
    (folder / "goes").touch()
    out, err = running.communicate(timeout=SCRIPT_S)
    assert (running.returncode, out) == (0, "done\n"), err


def test_a_job_may_be_left_to_the_plane(fleet: Fleet, folder: Path) -> None:
    done = gpulayer(fleet, folder, "run", "--detach", "--", "sh", "-c", "echo left")
    assert done.returncode == 0, done.stderr
    job_id = done.stdout.strip()
    assert gpulayer(fleet, folder, "jobs", "wait", job_id).returncode == 0
    assert gpulayer(fleet, folder, "jobs", "logs", job_id).stdout == "left\n"
    dry = gpulayer(fleet, folder, "run", "--dry-run", "--gpus", "99", "true")
    assert (dry.returncode, dry.stdout.count("99 usable cuda")) == (1, 2)


def told(fleet: Fleet, folder: Path, *argv: str, **env: str) -> tuple[dict[str, Any], str]:
    """Run a program to its end; the JSON line that it printed, and what it said besides."""
    process = start(fleet, folder, *argv, **env)
    out, err = process.communicate(timeout=SCRIPT_S)
    assert process.returncode == 0, out + err + fleet.said()
    return json.loads(out.strip().splitlines()[-1]), err


def test_a_call_that_is_left_to_itself_comes_home_in_another_process_as_if_it_had_been_awaited(
    fleet: Fleet, folder: Path, tmp_path: Path
) -> None:
    apart = tmp_path / "awaited"
    shutil.copytree(folder, apart)
    expected, _ = told(fleet, apart, "leaving.py", "whole")

    left, err = told(fleet, folder, "leaving.py", "leave")
    assert (left["answer"], left["same"], left["steps"]) == (None, True, 0)
    assert left["job"] in left["again"]
    assert "attach" in left["again"]
    assert f"{left['job']} goes on by itself" in err
    assert not (folder / "kept").exists()

    little, _ = told(fleet, folder, "leaving.py", "attach to little", left["job"])  # of which the rest is fetched
    assert little.pop("away").startswith(f"gpulayer://{left['job']}/")
    assert not little.pop("here")
    assert all("gpulayer.fetch(trainer)" in said for said in little.pop("stale"))
    assert little.pop("opened") == pytest.approx(little["weights"][-1], abs=1e-4)
    assert little | {"status": "finished"} == expected  # a refused call had made it "interrupted"
    home, _ = told(fleet, folder, "leaving.py", "attach", left["job"])
    assert "other names or shapes" in home.pop("other")
    assert "was not left by this process" in home.pop("nothing")
    assert home == expected
    again, _ = told(fleet, folder, "leaving.py", "attach", left["job"])  # the record stays
    assert {name: again[name] for name in expected} == expected
    with closing(fleet.plane()) as plane:
        assert plane.job(left["job"]).state is JobState.SUCCEEDED


def test_the_process_that_left_a_job_needs_no_more_than_its_name(fleet: Fleet, folder: Path) -> None:
    home, _ = told(fleet, folder, "leaving.py", "here")
    assert (home["steps"], home["status"], home["opens"]) == (4, "finished", 2)
    assert home["went on to"] == [3, 6]
    assert home["bad"] == ["row", 0]


def test_the_error_of_a_job_that_was_left_is_raised_where_it_comes_home(fleet: Fleet, folder: Path) -> None:
    left, _ = told(fleet, folder, "leaving.py", "leave failing")
    home, _ = told(fleet, folder, "leaving.py", "attach", left["job"])
    assert home == {"bad": ["row", 0]}


def test_a_job_that_broke_off_is_submitted_again_by_hand_and_comes_home(fleet: Fleet, folder: Path, tmp_path: Path) -> None:
    apart = tmp_path / "unbroken"
    shutil.copytree(folder, apart)
    expected, _ = told(fleet, apart, "again.py", "", "0")
    process = start(fleet, folder, "again.py", str(tmp_path / "died"), "0")
    err = process.communicate(timeout=SCRIPT_S)[1]
    assert process.returncode == 1
    (job_id,) = set(re.findall("job-[0-9a-f]{12}", err.partition(" on ")[0]))

    left = gpulayer(fleet, folder, "jobs", "resubmit", job_id, "--detach")
    assert left.returncode == 0, left.stderr
    assert f"of {job_id}" in left.stderr
    again = left.stdout.strip()
    assert gpulayer(fleet, folder, "jobs", "wait", again).returncode == 0
    home, _ = told(fleet, folder, "again.py", "", "0", again)

    for name in ("weights", "counts", "loss", "stopping"):
        assert home[name] == expected[name], name
    refused = gpulayer(fleet, folder, "jobs", "resubmit", job_id, "--from", "nowhere.ckpt")
    assert (refused.returncode, "nowhere.ckpt" in refused.stderr) == (2, True)


def test_a_command_is_submitted_again_as_it_was(fleet: Fleet, folder: Path) -> None:
    first = gpulayer(fleet, folder, "run", "--detach", "--", "sh", "-c", "echo once more").stdout.strip()
    assert gpulayer(fleet, folder, "jobs", "wait", first).returncode == 0
    done = gpulayer(fleet, folder, "jobs", "resubmit", first)
    assert (done.returncode, done.stdout) == (0, "once more\n"), done.stderr
    refused = gpulayer(fleet, folder, "jobs", "resubmit", first, "--from", "last")
    assert (refused.returncode, "no call of a Trainer" in refused.stderr) == (1, True)
