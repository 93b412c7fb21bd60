"""A server and workers as programs on hosts of their own, and a plane for the test to speak through."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from gpulayer import settings
from gpulayer.client import source
from gpulayer.errors import GPULayerError
from gpulayer.plane import Plane
from gpulayer.plane import open as open_plane
from gpulayer.spec.job import DistributedJob
from gpulayer.spec.records import JobRecord, WorkerRecord
from tests.network.lan import Host
from tests.waiting import wait_for

PROGRAMS = Path(__file__).parent / "programs"
PORT = 8470
STEPS, PAUSE_S = 60, 0.2
"""How often the counting program counts, unless told otherwise, and how long it pauses in between."""


class Cluster:
    """Starts and ends programs on hosts; ``plane`` is reached from the test's own place in the network."""

    def __init__(self, hosts: Mapping[str, Host], lease_s: float) -> None:
        self.hosts = hosts
        self.lease_s = lease_s
        self.url = f"https://{hosts['server'].address}:{PORT}"
        self._data = hosts["server"].folder / "plane"
        self.server: subprocess.Popen[bytes] | None = None
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self._planes: list[Plane] = []

    # --- the server --------------------------------------------------------------------------------------------------

    def start_server(self, *options: str) -> None:
        """Start the server and wait until it answers."""
        host = self.hosts["server"]
        argv = ["--host", host.address, "--port", str(PORT), "--data", str(self._data), "--lease-s", str(self.lease_s)]
        with (host.folder / "server.log").open("ab") as log:
            self.server = host.popen(
                *_GPULAYER, "server", "start", *argv, "--json", *options, env=_env(host), stdout=subprocess.PIPE, stderr=log
            )
        assert self.server.stdout is not None
        with self.server.stdout:
            said = self.server.stdout.readline()
        assert said, (host.folder / "server.log").read_text()[-3000:]

    def kill_server(self) -> None:
        assert self.server is not None
        self._kill(self.hosts["server"], "server start")
        self.server.wait(10)

    def token(self, role: str) -> str:
        """Return a fresh token, made on the server's own machine."""
        host = self.hosts["server"]
        argv = [*_GPULAYER, "tokens", "create", "--role", role, "--data", str(self._data), "--json"]
        made = host.popen(*argv, env=_env(host), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        said, complaint = made.communicate(timeout=60)
        assert made.returncode == 0, complaint.decode()
        return str(json.loads(said)["token"])

    # --- workers -----------------------------------------------------------------------------------------------------

    def start_worker(self, name: str, *options: str, by: str | None = None, token: str | None = None) -> None:
        """Start a worker on the host of its name, and wait until it has registered; ``by`` is another URL of the plane."""
        host = self.hosts[name]
        join = host.folder / "join.token"
        if token is not None or not join.exists():
            join.write_text(token or self.token("join"))
        argv = [*_GPULAYER, "--url", by or self.url, "--token-file", str(join), "worker", "start", "--name", name]
        argv += ["--work-dir", str(self.work(name)), *options]
        with (host.folder / "worker.log").open("ab") as log:
            self.workers[name] = host.popen(*argv, env=_env(host), stdout=subprocess.PIPE, stderr=log)
        out = self.workers[name].stdout
        assert out is not None
        with out:
            said = out.readline()
        assert said, (host.folder / "worker.log").read_text()[-3000:]

    def work(self, name: str) -> Path:
        return self.hosts[name].folder / "work"

    def kill_worker(self, name: str) -> None:
        """kill -9 of the worker's host process alone."""
        self._kill(self.hosts[name], "worker start")
        self.workers[name].wait(10)

    def processes(self, name: str, words: str) -> list[int]:
        """Return the processes of a host whose command line has ``words``, but not the ones that only entered it."""
        return [pid for pid in self.hosts[name].pids() if words in _command(pid)]

    def ranks(self, name: str) -> list[int]:
        """Return the training processes on a host."""
        return [pid for pid in self.processes(name, "gpulayer.runtime") if "torch.distributed.run" not in _command(pid)]

    def _kill(self, host: Host, words: str) -> None:
        for pid in host.pids():
            if words in _command(pid):
                os.kill(pid, signal.SIGKILL)

    def start(self) -> None:
        """Start the server and both workers, and wait until they serve."""
        self.start_server()
        join = self.token("join")
        for name in ("red", "blue"):
            self.start_worker(name, token=join)

    # --- jobs --------------------------------------------------------------------------------------------------------

    def open(self, token: str | None = None) -> Plane:
        """Open the plane as a caller, with an admin's token unless another is given."""
        os.environ["GPULAYER_TOKEN"] = token or self.token("admin")
        try:
            plane = open_plane(self.url)
        finally:
            del os.environ["GPULAYER_TOKEN"]
        self._planes.append(plane)
        return plane

    def submit(self, plane: Plane, script: str, *args: object, **fields: object) -> JobRecord:
        """Submit a script of ``programs`` as a job of two workers with one process each, unless ``fields`` say otherwise."""
        stored = source.store(plane, PROGRAMS, home=settings.read().home)
        shape = {"num_workers": 2, "procs_per_worker": 1, "placement": {"target": "remote"}, "on_unschedulable": "queue"}
        spec = {**shape, "source": stored.sha256, "entrypoint": script, "args": tuple(map(str, args)), **fields}
        return plane.submit(DistributedJob.model_validate(spec))

    def close(self) -> None:
        for plane in self._planes:
            with suppress(GPULayerError):
                plane.close()


@contextmanager
def cluster(hosts: Mapping[str, Host], lease_s: float) -> Iterator[Cluster]:
    made = Cluster(hosts, lease_s)
    try:
        yield made
    finally:
        made.close()


def ended(plane: Plane, job_id: str, *, within: float) -> JobRecord:
    """Wait until a job has ended."""

    def look() -> JobRecord | None:
        record = plane.job(job_id)
        return record if record.state.terminal else None

    found = wait_for(look, within=within, what=f"{job_id} ends")
    assert found is not None
    return found


def counted(plane: Plane, job_id: str) -> dict[int, list[int]]:
    """Return for each rank the steps that its lines tell of, in the order in which they are stored."""
    found: dict[int, list[int]] = {}
    for line in plane.lines(job_id):
        if line.rank is not None and line.text.startswith("step "):
            found.setdefault(line.rank, []).append(int(line.text.removeprefix("step ")))
    return found


def begin(plant: Cluster, plane: Plane, *args: object, steps: int = STEPS, **fields: object) -> JobRecord:
    """Start a counting job, and wait until both ranks have counted a little."""
    job = plant.submit(plane, "counting.py", steps, PAUSE_S, *args, **fields)
    wait_for(lambda: all(len(counted(plane, job.id).get(rank, ())) > 4 for rank in (0, 1)), within=90, what="both count")
    return job


def worker(plane: Plane, name: str) -> WorkerRecord:
    return next(each for each in plane.workers() if each.info.name == name)


def nothing_runs(plant: Cluster, *, within: float = 10.0) -> None:
    """No training process is left on any machine."""
    wait_for(lambda: not (plant.ranks("red") or plant.ranks("blue")), within=within, what="all ranks are gone")


def works_again(plant: Cluster, plane: Plane) -> None:
    """A job on both workers succeeds, whatever there was before."""
    since = time.time()

    def is_back(name: str) -> bool:
        # Heard since: one that is online by an old word may still be lost, as a link that lost much is slow to come back.
        record = worker(plane, name)
        return record.state == "online" and record.heard_at > since

    for name in ("red", "blue"):
        wait_for(functools.partial(is_back, name), within=60, what=f"{name} is back")
        assert worker(plane, name).leased == ()
    again = ended(plane, plant.submit(plane, "counting.py", 5, 0).id, within=90)
    assert again.state == "succeeded", again.sentence


_GPULAYER = (sys.executable, "-m", "gpulayer")


def _env(host: Host) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GPULAYER_")}
    return {**kept, "GPULAYER_HOME": str(host.folder / "home"), "HOME": str(host.folder)}


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
