"""A job that can never run here fails at once with every worker's reason; one that must wait says for what."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gpulayer import plane
from gpulayer.spec.states import JobState, Reason

from .processes import SCRIPT_S
from .scripts import run_script

pytestmark = pytest.mark.timeout(3 * SCRIPT_S)

TINY = Path(__file__).parent / "programs" / "tiny.py"
TWO_GPUS = {"accelerator": "cuda", "gpu_count": 2}


@pytest.fixture
def job_options(request: pytest.FixtureRequest, tmp_path: Path, home: Path) -> subprocess.CompletedProcess[str]:
    """What a script with these job options printed, at its end."""
    options: dict[str, Any] = request.param
    return run_script(tmp_path, str(TINY), JOB=json.dumps(options), NODES="2")


@pytest.mark.parametrize("job_options", [{"resources": TWO_GPUS}], indirect=True)
def test_what_no_worker_can_ever_run_fails_at_once_with_every_workers_reason(
    job_options: subprocess.CompletedProcess[str], home: Path
) -> None:
    said = job_options.stderr[job_options.stderr.rindex("Unschedulable") :]
    opened = plane.open(home, process="cli")
    [job] = opened.jobs()
    opened.close()

    assert (job.state, job.reason) == (JobState.FAILED, Reason.UNSCHEDULABLE)
    assert said.count("wkr-") == 2, said
    assert "needs 2 usable cuda device(s), worker has 0" in said


@pytest.mark.parametrize(
    "job_options", [{"resources": TWO_GPUS, "on_unschedulable": "queue", "queue_timeout_s": 6}], indirect=True
)
def test_what_may_wait_says_for_what_and_until_when(job_options: subprocess.CompletedProcess[str], home: Path) -> None:
    opened = plane.open(home, process="cli")
    [job] = opened.jobs()
    opened.close()

    assert (job.state, job.reason) == (JobState.TIMED_OUT, Reason.QUEUE_TIMEOUT)
    waiting, _, ending = job_options.stderr.partition("Traceback")
    assert "needs 2 usable cuda device(s), worker has 0" in waiting
    assert "JobTimedOut" in ending


@pytest.mark.parametrize("job_options", [{"detach": True}], indirect=True)
def test_a_call_is_not_left_to_workers_that_end_with_its_process(
    job_options: subprocess.CompletedProcess[str], home: Path
) -> None:
    opened = plane.open(home, process="cli")
    assert opened.jobs() == []
    opened.close()

    assert job_options.returncode == 1
    assert "NobodyStays" in job_options.stderr
    assert "gpulayer up --workers 2" in job_options.stderr
