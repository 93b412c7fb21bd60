"""A job's secrets: in the environment of its processes, and nowhere else."""

from __future__ import annotations

import base64
import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from gpulayer.logs.scrub import Scrubber
from gpulayer.spec.calls import ErrorRecord, Outcome
from gpulayer.spec.causes import Evidence
from gpulayer.spec.job import CommandJob, DistributedJob, FunctionJob
from gpulayer.spec.reports import RankOutcome, TaskEnded, TaskFault
from gpulayer.spec.states import Reason, TaskState
from gpulayer.worker import processes, secrets
from tests.worker.recording import DEADLINE_S, RecordingPlane

Fleet = Callable[..., Any]
Bundled = Callable[..., RecordingPlane]
VALUE = 'correct/horse+"battery" staple'
FORMS = [VALUE, json.dumps(VALUE)[1:-1], quote(VALUE), quote(VALUE, safe=""), base64.b64encode(VALUE.encode()).decode()]

SAY = """
import base64, json, os, sys, urllib.parse
value = os.environ["API_KEY"]
print("plain", value, "!")
print(json.dumps({"key": value}))
print(urllib.parse.quote(value), urllib.parse.quote(value, safe=""), file=sys.stderr)
print(base64.b64encode(value.encode()).decode())
print(base64.b64encode(("user:" + value).encode()).decode())
print("\\r10%\\r" + value + "\\r90%", flush=True)
print("x" * (1024 * 1024 - 10) + value, flush=True)
for letter in value + "\\n":
    sys.stdout.write(letter)
    sys.stdout.flush()
sys.stdout.write(value)
"""


def found_in(text: str) -> list[str]:
    return [form for form in FORMS if form in text]


def with_secret(plane: RecordingPlane) -> RecordingPlane:
    plane.secrets = {"API_KEY": VALUE}
    return plane


def test_a_process_has_it_and_what_it_prints_does_not_show_it(fleet: Fleet, bundled: Bundled) -> None:
    plane = with_secret(bundled(CommandJob(command=("python", "say.py"), secrets=("API_KEY",)), {"say.py": SAY}))
    fleet(plane)

    (ended,) = plane.wait_ended()

    assert ended.state is TaskState.SUCCEEDED
    lines = plane.text().splitlines()
    assert found_in(plane.text()) == []
    assert lines.count("***") == 3  # alone in base64, letter by letter, and without a newline
    assert {"plain *** !", '{"key": "***"}', "*** ***", "90%"} <= set(lines)
    assert [line for line in lines if line.startswith("xxx") and line.endswith("x***")]


def test_while_it_runs_no_file_and_no_other_process_shows_it(fleet: Fleet, home: Path, tmp_path: Path) -> None:
    script = f'echo "$API_KEY"; touch {tmp_path}/running; while [ ! -e {tmp_path}/end ]; do sleep 0.02; done'
    plane = with_secret(RecordingPlane(CommandJob(command=("/bin/sh", "-c", script), secrets=("API_KEY",))))
    fleet(plane)
    plane.wait_for(lambda: "***" in plane.text())

    files = [path for path in home.rglob("*") if path.is_file()]
    assert [path for path in files if VALUE.encode() in path.read_bytes()] == []
    assert "order.json" in [path.name for path in files]
    mine = list(processes.descendants(os.getpid()))
    assert [each.name for each in mine if VALUE.encode() in of_process(each.pid, "cmdline")] == []
    knowing = {each.name for each in mine if VALUE.encode() in of_process(each.pid, "environ")}
    assert "sh" in knowing
    assert knowing <= {"sh", "sleep"}

    (tmp_path / "end").touch()
    plane.wait_ended()


def of_process(pid: int, what: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{what}").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def test_a_missing_secret_fails_the_preparation_by_its_name(fleet: Fleet) -> None:
    plane = RecordingPlane(CommandJob(command=("true",), secrets=("API_KEY",)))
    fleet(plane)

    (ended,) = plane.wait_ended()

    assert (ended.state, ended.reason) == (TaskState.FAILED, Reason.PREPARATION_FAILED)
    assert "API_KEY" in ended.sentence


RAISE = """
import os
def call():
    raise ValueError("no luck with " + os.environ["API_KEY"])
if __name__ == "__main__":
    call()
"""


@pytest.mark.parametrize(
    "spec",
    [
        FunctionJob(function="boom:call", secrets=("API_KEY",)),
        DistributedJob(entrypoint="boom.py", secrets=("API_KEY",)),
        CommandJob(command=("python", "-m", "gpulayer.runtime", "boom.py"), secrets=("API_KEY",)),
    ],
    ids=lambda spec: spec.kind,
)
def test_an_exception_is_reported_without_it(fleet: Fleet, bundled: Bundled, spec: Any) -> None:
    plane = with_secret(bundled(spec, {"boom.py": RAISE}))
    fleet(plane)

    (ended,) = plane.wait_ended()

    (fault,) = plane.of(TaskFault)
    assert fault.evidence.error.message == "no luck with ***"
    assert "***" in fault.evidence.error.traceback
    assert "***" in fault.evidence.sentence
    assert "no luck with ***" in ended.sentence
    assert found_in("".join(str(report) for report in plane.reports) + plane.text()) == []


def test_every_word_of_a_report_is_looked_at() -> None:
    hide = Scrubber([VALUE])
    task = {"worker_id": "w", "job_id": "j", "attempt": 1, "node_rank": 0}
    error = ErrorRecord(rank=0, module="m", qualname="E", message=VALUE, traceback=f"a {VALUE} b")
    evidence = Evidence(kind="exception", node_rank=0, sentence=VALUE, error=error)
    outcome = Outcome(call=0, rank=0, status="failed", at=0.0, error=error)
    state = {"state": TaskState.FAILED, "reason": Reason.USER_ERROR}
    for report in (
        TaskFault(**task, evidence=evidence),
        RankOutcome(**task, outcome=outcome),
        TaskEnded(**task, **state, sentence=VALUE, evidence=(evidence, evidence)),
    ):
        found = secrets.scrubbed(report, hide)
        assert found_in(str(found)) == []
        assert str(found).count("***") == str(report).count(VALUE)
        assert secrets.scrubbed(report, Scrubber()) is report


def test_a_secret_that_two_writes_share_is_hidden_in_time(fleet: Fleet, tmp_path: Path) -> None:
    half = len(VALUE) // 2
    script = (
        "import os, sys, time, pathlib\n"
        f"value, here = os.environ['API_KEY'], pathlib.Path({str(tmp_path)!r})\n"
        f"os.write(1, b'begin ' + value[:{half}].encode())\n"
        "(here / 'half').touch()\n"
        "while not (here / 'on').exists(): time.sleep(0.01)\n"
        f"os.write(1, value[{half}:].encode() + b' end' + chr(10).encode())\n"
    )
    plane = with_secret(RecordingPlane(CommandJob(command=("python", "-c", script), secrets=("API_KEY",))))
    fleet(plane)
    until = time.monotonic() + DEADLINE_S
    while not (tmp_path / "half").exists():
        assert time.monotonic() < until
        threading.Event().wait(0.01)
    (tmp_path / "on").touch()

    plane.wait_ended()

    assert plane.text() == "begin *** end\n"
