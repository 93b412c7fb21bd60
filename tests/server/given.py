"""What tests of a server send it."""

from __future__ import annotations

import hashlib
from typing import Any

import httpx

from gpulayer.spec.job import CommandJob
from gpulayer.spec.workers import WorkerInfo
from tests.control.given import a_command, a_worker

REMOTE = {"target": "remote"}


def a_job(**fields: Any) -> dict[str, Any]:
    """A submission."""
    job: CommandJob = a_command(**{"placement": REMOTE, "on_unschedulable": "queue", **fields})
    return {"job": job.model_dump(mode="json")}


def submit(client: httpx.Client, **fields: Any) -> dict[str, Any]:
    answer = client.post("/v1/jobs", json=a_job(**fields))
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def register(client: httpx.Client, name: str = "one", **fields: Any) -> WorkerInfo:
    info = a_worker(name, origin="existing", **fields)
    answer = client.put(f"/v1/workers/{info.id}", json=info.model_dump(mode="json"))
    assert answer.status_code == 200, answer.text
    return info


def orders(client: httpx.Client, worker: WorkerInfo, *, seen: int = 0, timeout_s: float = 30.0) -> dict[str, Any]:
    asked: dict[str, Any] = {"seen": seen, "timeout_s": timeout_s, "incarnation": worker.incarnation}
    answer = client.get(f"/v1/workers/{worker.id}/orders", params=asked)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def report(
    client: httpx.Client, worker: WorkerInfo, job_id: str, kind: str, *, attempt: int = 1, **told: Any
) -> httpx.Response:
    about = {"worker_id": worker.id, "incarnation": worker.incarnation, "job_id": job_id, "attempt": attempt, "node_rank": 0}
    return client.post("/v1/reports", json={**about, "kind": kind, **told})


def run_to_its_end(client: httpx.Client, worker: WorkerInfo, job_id: str) -> None:
    """Play a worker that runs a job well."""
    for kind, told in (("ready", {}), ("running", {}), ("ended", {"state": "succeeded", "reason": "done", "exit_code": 0})):
        assert report(client, worker, job_id, kind, **told).status_code == 204


def lines_of(job_id: str, texts: list[str], *, first: int = 0, **fields: Any) -> list[dict[str, Any]]:
    given = {"job_id": job_id, "attempt": 1, "node_rank": 0, "rank": 0, "stream": "stdout", "time": 1.5}
    return [{**given, "seq": first + number, "text": text, **fields} for number, text in enumerate(texts)]


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
