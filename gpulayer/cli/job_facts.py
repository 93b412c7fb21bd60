"""What the command line says of a job: plain facts for JSON, and the words of its table."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime

from gpulayer.cli.output import age, span
from gpulayer.spec.calls import CallView
from gpulayer.spec.job import CommandJob, DistributedJob, FunctionJob
from gpulayer.spec.records import JobRecord, TaskRecord

RUNTIME = ("python", "-m", "gpulayer.runtime")
"""What stands before the script of a job with one process."""


def what(job: JobRecord) -> str:
    """Say what a job runs, as a person would type it."""
    spec = job.spec
    if isinstance(spec, CommandJob):
        ours = len(RUNTIME) if spec.command[: len(RUNTIME)] == RUNTIME else 0
        return " ".join(spec.command[ours:])
    if isinstance(spec, FunctionJob):
        return spec.function
    return " ".join((_script(spec), *spec.args))


def _script(spec: DistributedJob) -> str:
    """Name a script that is run from outside of the source folder by where it lies in there."""
    if not spec.entrypoint.startswith("../"):
        return spec.entrypoint
    return os.path.normpath(os.path.join(spec.cwd, spec.entrypoint))


def stands(job: JobRecord) -> str:
    """Say the state with what makes it precise: the phase of a running job, the reason of another."""
    detail = job.phase if job.state.value == "running" else job.reason
    return f"{job.state} ({detail})" if detail and detail.value not in (job.state.value, "done") else job.state.value


def took(job: JobRecord, now: float | None = None) -> str | None:
    """Say how long a job has been running, or ran."""
    if job.running_at is None:
        return None
    return span((job.ended_at or (time.time() if now is None else now)) - job.running_at)


def job_facts(job: JobRecord) -> dict[str, object]:
    """Return the object that ``jobs ls --json`` prints of each job."""
    workers, procs = job.shape
    return {
        "id": job.id,
        "kind": job.spec.kind,
        "name": job.spec.name,
        "what": what(job),
        "state": job.state,
        "phase": job.phase,
        "reason": job.reason,
        "sentence": job.sentence,
        "attempt": job.attempt,
        "num_workers": workers,
        "procs_per_worker": procs,
        "created_at": job.created_at,
        "running_at": job.running_at,
        "ended_at": job.ended_at,
        "waits_for": list(job.why),
    }


def all_facts(job: JobRecord) -> dict[str, object]:
    """Return the object that ``jobs show --json`` prints: the list's facts, then tasks, calls, cause and spec."""
    return job_facts(job) | {
        "tasks": [task.model_dump(mode="json") for task in job.tasks],
        "calls": calls_made(job),
        "cause": job.cause and job.cause.model_dump(mode="json"),
        "progress": job.progress and job.progress.model_dump(mode="json"),
        "spec": job.spec.model_dump(mode="json"),
    }


def calls_made(job: JobRecord) -> list[dict[str, object]]:
    """Return the calls that the caller made, with how each stands."""
    return [
        {"call": view.call, "function": view.go.fingerprint.function, "status": _call_status(job, view)}
        for view in job.calls
        if view.go
    ]


def _call_status(job: JobRecord, view: CallView) -> str:
    bad = [outcome.status for outcome in view.outcomes if outcome.status != "ok"]
    if bad or view.settled:
        return bad[0] if bad else "ok"
    if job.state.terminal:
        return job.state.value if view.begun else "never begun"
    return "running" if view.begun else "waiting"


def shown(job: JobRecord) -> dict[str, object]:
    """Return what ``jobs show`` tells a person."""
    workers, procs = job.shape
    return {
        "job": job.id,
        "name": job.spec.name,
        "runs": what(job),
        "shape": f"{workers} x {procs}",
        "state": stands(job),
        "because": "\n".join(filter(None, (job.sentence, job.cause.next_step if job.cause else ""))),
        "waits for": "\n".join(job.why),
        "created": moment(job.created_at),
        "started": moment(job.running_at),
        "ended": moment(job.ended_at),
        "calls": "\n".join("{call} {function}: {status}".format(**call) for call in calls_made(job)),
        "tasks": "\n".join(map(_task, job.tasks)),
    }


def _task(task: TaskRecord) -> str:
    code = "" if task.exit_code is None else f", exit code {task.exit_code}"
    why = f": {task.sentence}" if task.sentence else ""
    return f"node{task.node_rank} on {task.worker_name or task.worker_id}: {task.state}{code}{why}"


def moment(at: float | None) -> str | None:
    """Say a time in the local zone, to the second."""
    return None if at is None else datetime.fromtimestamp(at, tz=UTC).astimezone().isoformat(sep=" ", timespec="seconds")


COLUMNS: dict[str, Callable[[JobRecord], object]] = {
    "ID": lambda job: job.id,
    "NAME": lambda job: job.spec.name,
    "STATE": stands,
    "SHAPE": lambda job: "{} x {}".format(*job.shape),
    "AGE": lambda job: age(job.created_at),
    "RAN": took,
    "WHAT": lambda job: _cut(what(job), 48),
}


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."
