"""A real server with a real worker: a secret is nowhere but in its job, and no door is open."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from gpulayer import plane as planes
from gpulayer.plane import Cursor, Plane
from gpulayer.spec.job import CommandJob
from gpulayer.spec.records import JobRecord
from gpulayer.spec.resources import Placement
from gpulayer.spec.states import JobState
from gpulayer.worker import processes
from tests.end_to_end.processes import SCRIPT_S
from tests.server.running import Server
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(3 * SCRIPT_S)

VALUE = 'correct/horse+"battery" staple'
FORMS = {VALUE, json.dumps(VALUE)[1:-1], quote(VALUE), quote(VALUE, safe=""), base64.b64encode(VALUE.encode()).decode()}
OF_THE_WORKER = "a-password-of-whoever-started-the-worker"
SAY = """
import base64, json, logging, os, sys, urllib.parse
logging.basicConfig(level=logging.DEBUG)
value = os.environ["API_KEY"]
logging.debug("connecting with %s", {"key": value})
print(value, json.dumps(value), urllib.parse.quote(value), base64.b64encode(value.encode()).decode(), flush=True)
print(sorted(os.environ), "PASSWORD" in os.environ, "GPULAYER_TOKEN" in os.environ)
raise RuntimeError(f"refused: {value}")
"""


class Place:
    """A server and a worker at it, both at DEBUG level, with all that they log in files of ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.server = Server(folder / "data")
        loud = {**os.environ, "GPULAYER_LOG_LEVEL": "debug"}
        with (folder / "server.log").open("wb") as log:
            self._server = subprocess.Popen(self.server.arguments(), stdout=subprocess.PIPE, stderr=log, env=loud)
        assert self._server.stdout is not None
        self.url = self.server.url = json.loads(self._server.stdout.readline())["url"]
        (folder / "join.token").write_text(self.server.token("join"))
        at = ("--url", self.url, "--token-file", str(folder / "join.token"))
        command = [sys.executable, "-m", "gpulayer", *at, "worker", "start", "--work-dir", str(folder / "worker")]
        with (folder / "worker.log").open("wb") as log:
            self.worker = subprocess.Popen(
                command, stdout=log, stderr=log, env={**loud, "PASSWORD": OF_THE_WORKER, "GPULAYER_TOKEN": "glt_x"}
            )

    def plane(self) -> Plane:
        return planes.open(self.url, token=self.server.token())

    def close(self) -> None:
        for process in (self.worker, self._server):
            process.terminate()
            try:
                process.communicate(timeout=SCRIPT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.close()


def ended(plane: Plane, job_id: str) -> JobRecord:
    cursor = Cursor()
    while not (news := plane.news(job_id, cursor, timeout_s=30.0)).job.state.terminal:
        assert news.cursor != cursor, news.job
        cursor = news.cursor
    return news.job


def holding(folder: Path, words: set[str]) -> list[str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [f"{path.name}: {word}" for path in files for word in words if word.encode() in path.read_bytes()]


def test_a_secret_is_in_no_database_file_log_or_answer(place: Place, tmp_path: Path) -> None:
    remote = Placement(target="remote")
    (tmp_path / "say.py").write_text(SAY)
    command = ("python", "-m", "gpulayer.runtime", str(tmp_path / "say.py"))
    with closing(place.plane()) as plane:
        plane.set_secret("API_KEY", VALUE)
        said = plane.submit(CommandJob(command=command, secrets=("API_KEY",), placement=remote, on_unschedulable="queue"))
        failed = ended(plane, said.id)
        lines = [line.text for line in plane.lines(said.id)]
        news = plane.news(said.id, Cursor())

    assert failed.state is JobState.FAILED
    assert "refused: ***" in failed.sentence
    assert '*** "***" *** ***' in lines
    assert "DEBUG:root:connecting with {'key': '***'}" in lines
    assert [line[-11:] for line in lines if line.startswith("[")] == ["False False"]
    answers = "".join(map(str, (failed, lines, news, *of_every_question(place, said.id))))
    assert [form for form in FORMS if form in answers] == []
    assert holding(tmp_path, FORMS | {OF_THE_WORKER}) == []
    assert "debug" in (tmp_path / "server.log").read_text()


def of_every_question(place: Place, job_id: str) -> list[str]:
    """Return what the API tells an admin of a job and of everything else."""
    asked = ["jobs", f"jobs/{job_id}", f"jobs/{job_id}/news", f"jobs/{job_id}/explain", f"jobs/{job_id}/lines", "workers"]
    asked += [f"jobs/{job_id}/artifacts", f"jobs/{job_id}/checkpoints", f"jobs/{job_id}/secrets", "secrets", "tokens", "about"]
    with place.server.asked_by("admin") as client:
        return [client.get(f"/v1/{path}").text for path in asked] + [client.get("/metrics").text]


OPEN = {"/healthz", "/readyz", "/metrics"}


def test_no_door_of_the_server_opens_without_a_token(place: Place) -> None:
    with place.server.asked_by("admin") as client:
        paths = client.get("/v1/openapi.json").json()["paths"]
    doors = [(method.upper(), path) for path, methods in paths.items() for method in methods if path not in OPEN]
    assert len(doors) > 25
    for headers in ({}, {"Authorization": "Bearer glt_" + "x" * 43}, {"Authorization": "Basic YTpi"}):
        with httpx.Client(base_url=place.url, headers=headers) as stranger:
            told = {door: stranger.request(door[0], door[1].replace("{sha256}", "0" * 64)).status_code for door in doors}
            assert {door: status for door, status in told.items() if status != 401} == {}
            assert stranger.get("/v1/openapi.json").status_code == 401
            assert stranger.get("/healthz").status_code == 200


def test_a_worker_opens_no_port(place: Place, tmp_path: Path) -> None:
    with closing(place.plane()) as plane:
        wait_for(lambda: plane.workers(), within=SCRIPT_S, what="the worker registers")
        job = plane.submit(CommandJob(command=("/bin/sh", "-c", "echo up; sleep 600"), placement=Placement(target="remote")))
        wait_for(lambda: [line.text for line in plane.lines(job.id)] == ["up"], within=SCRIPT_S, what="it runs")

        found = [each.pid for each in processes.descendants(place.worker.pid)]
        assert len(found) >= 3  # the guard, the shell, its sleep
        assert listening([place.worker.pid, *found]) == []

        plane.cancel(job.id, kill=True)
        ended(plane, job.id)


def listening(pids: list[int]) -> list[str]:
    """Return the addresses at which processes listen for others."""
    sockets = {}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":
                sockets[f"socket:[{fields[9]}]"] = fields[1]
    links = [os.readlink(file) for pid in pids for file in Path(f"/proc/{pid}/fd").iterdir()]
    return [sockets[link] for link in links if link in sockets]


def test_the_exception_of_a_call_comes_home_without_it(home: Path, tmp_path: Path) -> None:
    program = tmp_path / "code" / "secretive.py"
    program.parent.mkdir()
    program.write_bytes((Path(__file__).parent / "programs" / "secretive.py").read_bytes())
    with closing(planes.open(home)) as plane:
        plane.set_secret("API_KEY", VALUE)

    done = subprocess.run([sys.executable, program], cwd=program.parent, capture_output=True, text=True, timeout=SCRIPT_S)

    told = json.loads(done.stdout.splitlines()[-1])
    assert (told["args"], told["key"]) == (["*** was refused", "https://h/?key=***"], "***")
    assert "asked with ***" in told["told"]
    assert "key: ***" in done.stdout
    assert [form for form in FORMS if form in done.stdout + done.stderr] == []
    assert holding(home, FORMS) == []
