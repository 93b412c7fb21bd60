"""A self-hosted plane, reached over HTTP."""

from __future__ import annotations

import json
import os
import secrets
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, TypeAdapter

from gpulayer.errors import NotFound, PlaneUnreachable
from gpulayer.plane.blobs import RemoteBlobs
from gpulayer.plane.presence import Presence
from gpulayer.spec.base import new_id
from gpulayer.spec.calls import CallView, Go
from gpulayer.spec.files import Artifact, Blob, Checkpoint
from gpulayer.spec.job import CommandJob, DistributedJob, FunctionJob
from gpulayer.spec.logs import LogLine
from gpulayer.spec.news import Cursor, News
from gpulayer.spec.records import Explanation, JobRecord, JobSize, Orders, WorkerRecord
from gpulayer.spec.reports import Report
from gpulayer.spec.states import Reason
from gpulayer.spec.tokens import Joined, JoinRequest, NewToken, TokenRecord, TokenRequest
from gpulayer.spec.workers import WorkerInfo
from gpulayer.transport.address import Address
from gpulayer.transport.http import Broken, Http

AnyJob = CommandJob | FunctionJob | DistributedJob
M = TypeVar("M", bound=BaseModel)
_MOST_LOST = 5

_JOBS = TypeAdapter(list[JobRecord])
_ARTIFACTS = TypeAdapter(list[Artifact])
_CHECKPOINTS = TypeAdapter(list[Checkpoint])
_WORKERS = TypeAdapter(list[WorkerRecord])
_TOKENS = TypeAdapter(list[TokenRecord])


class RemotePlane:
    """A plane behind HTTP (see ``gpulayer.plane.Plane``); many threads may use it, a forked child may not."""

    def __init__(self, address: Address, *, process: str = "caller", process_id: str | None = None) -> None:
        self._http = Http(address)
        self._blobs = RemoteBlobs(self._http)
        self._process_id = process_id or new_id("prc")
        self._presence = Presence(self._http, self._process_id, process)
        self._incarnations: dict[str, str] = {}
        self._pid = os.getpid()
        self._closing = threading.Lock()
        self._closed = False

    @property
    def process_id(self) -> str:
        """The id under which this process is heard from once it has submitted a job: the owner of its jobs."""
        return self._process_id

    @property
    def silent_s(self) -> float:
        """How long the plane has not answered what it is asked again and again; 0.0 while it does."""
        return self._http.silent_s

    def close(self) -> None:
        """Leave with a word; waits of other threads end. Closing twice is harmless."""
        with self._closing:
            if self._closed or os.getpid() != self._pid:
                return
            self._closed = True
        self._presence.leave()
        self._http.close()

    def about(self) -> dict[str, Any]:
        """Return what the plane says: its ``version``, ``lease_s`` and clock (``now``), and the ``role`` of our token."""
        return dict(self._http.ask("GET", "/v1/about").json())

    # --- callers -----------------------------------------------------------------------------------------------------

    def submit(self, job: AnyJob, *, key: str = "") -> JobRecord:
        self._presence.begin(None if job.calls is None else job.calls.caller_lease_s)
        said = {"job": job, "key": key or secrets.token_hex(16), "owner": self._process_id}
        return self._one(JobRecord, "POST", "/v1/jobs", json=said)

    def job(self, job_id: str) -> JobRecord:
        return self._one(JobRecord, "GET", _at("jobs", job_id))

    def jobs(self, *, limit: int = 100) -> list[JobRecord]:
        return _JOBS.validate_json(self._http.ask("GET", "/v1/jobs", params={"limit": limit}).content)

    def unended_jobs(self, owner: str) -> list[JobRecord]:
        return _JOBS.validate_json(self._http.ask("GET", "/v1/jobs", params={"owner": owner, "unended": True}).content)

    def news(self, job_id: str, cursor: Cursor, *, timeout_s: float = 0.0, lines: bool = True) -> News:
        asked = {**cursor.model_dump(), "timeout_s": timeout_s, "with_lines": lines}
        return self._one(News, "GET", _at("jobs", job_id, "news"), params=asked, wait_s=timeout_s)

    def cancel(self, job_id: str, *, reason: Reason = Reason.CANCELLED_BY_USER, kill: bool = False) -> JobRecord:
        return self._one(JobRecord, "POST", _at("jobs", job_id, "cancel"), json={"reason": reason, "kill": kill})

    def ended_jobs(self, before: float, *, limit: int = 100) -> list[JobRecord]:
        asked = {"limit": limit, "ended_before": before}
        return _JOBS.validate_json(self._http.ask("GET", "/v1/jobs", params=asked).content)

    def size(self, job_id: str) -> JobSize:
        return self._one(JobSize, "GET", _at("jobs", job_id, "size"))

    def explain(self, job_id: str) -> Explanation:
        return self._one(Explanation, "GET", _at("jobs", job_id, "explain"))

    def explain_spec(self, job: AnyJob) -> Explanation:
        return self._one(Explanation, "POST", "/v1/explain", json={"job": job, "owner": self._process_id})

    def remove(self, job_id: str) -> None:
        self._http.ask("DELETE", _at("jobs", job_id))

    # --- the calls of a script ---------------------------------------------------------------------------------------

    def go(self, job_id: str, go: Go) -> CallView:
        return self._one(CallView, "POST", _at("jobs", job_id, "go"), json=go)

    def send_state(self, job_id: str, call: int, state: Blob) -> None:
        self._http.ask("POST", _at("jobs", job_id, "calls", str(call), "state"), json=state)

    def farewell(self, job_id: str) -> None:
        self._http.ask("POST", _at("jobs", job_id, "farewell"))

    # --- files -------------------------------------------------------------------------------------------------------

    def has_blob(self, sha256: str) -> bool:
        return self._blobs.has(sha256)

    def put_blob(self, source: Path | bytes) -> Blob:
        return self._blobs.put(source)

    def open_blob(self, sha256: str) -> BinaryIO:
        return self._blobs.open(sha256)

    def fetch_blob(self, sha256: str, to: Path) -> None:
        self._blobs.fetch(sha256, to)

    def artifacts(self, job_id: str, *, attempt: int | None = None) -> list[Artifact]:
        answer = self._http.ask("GET", _at("jobs", job_id, "artifacts"), params={"attempt": attempt})
        return _ARTIFACTS.validate_json(answer.content)

    def remove_artifacts(self, job_id: str, paths: Sequence[str]) -> list[Artifact]:
        answer = self._http.ask("POST", _at("jobs", job_id, "artifacts", "remove"), json={"paths": list(paths)})
        return _ARTIFACTS.validate_json(answer.content)

    def checkpoints(self, job_id: str) -> list[Checkpoint]:
        return _CHECKPOINTS.validate_json(self._http.ask("GET", _at("jobs", job_id, "checkpoints")).content)

    # --- workers -----------------------------------------------------------------------------------------------------

    def workers(self) -> list[WorkerRecord]:
        return _WORKERS.validate_json(self._http.ask("GET", "/v1/workers").content)

    def drain(self, worker_id: str) -> None:
        self._http.ask("POST", _at("workers", worker_id, "drain"))

    def remove_worker(self, worker_id: str) -> None:
        self._http.ask("DELETE", _at("workers", worker_id))

    def register(self, info: WorkerInfo) -> WorkerRecord:
        self._incarnations[info.id] = info.incarnation
        return self._one(WorkerRecord, "PUT", _at("workers", info.id), json=info)

    def unregister(self, worker_id: str) -> None:
        self._http.ask("POST", _at("workers", worker_id, "leave"))

    def orders(self, worker_id: str, *, seen: int = 0, timeout_s: float = 0.0) -> Orders:
        asked = {"seen": seen, "timeout_s": timeout_s, "incarnation": self._incarnations.get(worker_id, "")}
        at = _at("workers", worker_id, "orders")
        return self._one(Orders, "GET", at, params=asked, wait_s=timeout_s, insist=False)

    def report(self, report: Report) -> None:
        self._http.ask("POST", "/v1/reports", json=report)

    def append_lines(self, job_id: str, lines: Sequence[LogLine]) -> None:
        self._http.ask("POST", _at("jobs", job_id, "lines"), json=list(lines))

    def log_marks(self, job_id: str, attempt: int, node_rank: int) -> dict[str, int]:
        asked = {"attempt": attempt, "node_rank": node_rank}
        return dict(self._http.ask("GET", _at("jobs", job_id, "log-marks"), params=asked).json())

    def lines(self, job_id: str, *, rank: int | None = None, tail: int | None = None) -> Iterator[LogLine]:
        """Give the lines as they come; after a broken connection, those that were not given yet."""
        asked, given, broken = {"rank": rank, "tail": tail}, 0, 0
        while True:
            came = given
            try:
                with self._http.stream(_at("jobs", job_id, "lines"), params=asked) as (_, body):
                    for at, line in enumerate(_split(body)):
                        if at >= given:
                            given += 1
                            yield LogLine.model_validate_json(line)
                return
            except Broken as cause:
                broken = 0 if given > came else broken + 1
                if broken > _MOST_LOST:
                    raise PlaneUnreachable(f"The lines of {job_id} could not be read to their end: {cause}.") from cause

    # --- secrets and tokens ------------------------------------------------------------------------------------------

    def set_secret(self, name: str, value: str) -> None:
        self._http.ask("PUT", _at("secrets", name), json={"value": value})

    def secret_names(self) -> list[str]:
        return list(self._http.ask("GET", "/v1/secrets").json())

    def remove_secret(self, name: str) -> None:
        self._http.ask("DELETE", _at("secrets", name))

    def secrets_of(self, job_id: str) -> dict[str, str]:
        return dict(self._http.ask("GET", _at("jobs", job_id, "secrets")).json())

    def create_token(self, request: TokenRequest) -> NewToken:
        return self._one(NewToken, "POST", "/v1/tokens", json=request)

    def tokens(self) -> list[TokenRecord]:
        return _TOKENS.validate_json(self._http.ask("GET", "/v1/tokens").content)

    def revoke_token(self, token_id: str) -> None:
        self._http.ask("DELETE", _at("tokens", token_id))

    def join(self, request: JoinRequest) -> Joined:
        """Become a worker, with a join token; the same token and key may do so again when the answer was lost."""
        return self._one(Joined, "POST", "/v1/join", json=request)

    # -----------------------------------------------------------------------------------------------------------------

    def _one(self, kind: type[M], method: str, path: str, **said: Any) -> M:
        return kind.model_validate_json(self._http.ask(method, path, **said).content)


def _at(*parts: str) -> str:
    """Write a path of things named by people: nothing in a name leaves its place."""
    for part in parts:
        if part in ("", ".", "..") or "/" in part:
            raise NotFound(f"There is nothing of the name {part!r}.")
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)


def _split(body: Iterator[bytes]) -> Iterator[bytes]:
    """Cut at newlines alone: what a line of a job holds may look like the end of one."""
    rest = b""
    for data in body:
        *whole, rest = (rest + data).split(b"\n")
        yield from whole
    if rest:
        raise Broken(f"it ended inside of a line: {json.dumps(rest[:40].decode(errors='replace'))}")
