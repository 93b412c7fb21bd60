"""The plane as everyone else sees it: the same calls whether it is embedded in a home or reached over HTTP."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO, Protocol

from gpulayer import settings
from gpulayer.errors import Unauthorized
from gpulayer.settings import Settings
from gpulayer.spec.calls import CallView, Go
from gpulayer.spec.files import Artifact, Blob, Checkpoint
from gpulayer.spec.job import CommandJob, DistributedJob, FunctionJob
from gpulayer.spec.logs import LogLine
from gpulayer.spec.news import Cursor, News
from gpulayer.spec.records import Explanation, JobRecord, JobSize, Orders, WorkerRecord
from gpulayer.spec.reports import Report
from gpulayer.spec.states import Reason
from gpulayer.spec.workers import WorkerInfo

__all__ = ["Cursor", "News", "Plane", "open"]


class Plane(Protocol):
    """Everything that callers and workers ask of a control plane. All calls may be repeated safely."""

    @property
    def process_id(self) -> str:
        """The id under which this process is known to the plane."""

    def close(self) -> None: ...

    # --- callers -------------------------------------------------------------------------------------------------

    def submit(self, job: CommandJob | FunctionJob | DistributedJob, *, key: str = "") -> JobRecord:
        """Queue a job and try to place it at once; ``key`` makes a repeated submission the same job.

        Raises ``Unschedulable`` (with every worker's reasons) when no registered worker could ever run it and the job
        says ``on_unschedulable="fail"``; the job is then recorded as failed.
        """

    def job(self, job_id: str) -> JobRecord:
        """Return a job by its id or a unique prefix of it."""

    def jobs(self, *, limit: int = 100) -> list[JobRecord]:
        """Return the newest jobs, newest first."""

    def ended_jobs(self, before: float, *, limit: int = 100) -> list[JobRecord]:
        """Return the jobs that ended before a time (seconds since the epoch), those that were submitted first first."""

    def size(self, job_id: str) -> JobSize:
        """Return what a job takes of the plane's disk."""

    def unended_jobs(self, owner: str) -> list[JobRecord]:
        """Return the jobs that a process (by its ``process_id``) submitted and that have not ended."""

    def news(self, job_id: str, cursor: Cursor, *, timeout_s: float = 0.0, lines: bool = True) -> News:
        """Wait until anything of the job changed after ``cursor`` (or the timeout passed), and return it all."""

    def cancel(self, job_id: str, *, reason: Reason = Reason.CANCELLED_BY_USER, kill: bool = False) -> JobRecord:
        """Ask that the job ends; ``kill`` skips the grace. Cancelling an ended job changes nothing."""

    def explain(self, job_id: str) -> Explanation: ...

    def explain_spec(self, job: CommandJob | FunctionJob | DistributedJob) -> Explanation:
        """Answer as ``explain`` does for a job that was not submitted (``--dry-run``)."""

    def remove(self, job_id: str) -> None:
        """Forget an ended job, with its logs and artifacts."""

    # --- the calls of a script -----------------------------------------------------------------------------------

    def go(self, job_id: str, go: Go) -> CallView:
        """Let call ``go.call`` begin once every rank has arrived at it with the same fingerprint."""

    def send_state(self, job_id: str, call: int, state: Blob) -> None:
        """Give the caller's tensors for a call whose view says ``needs_state``."""

    def farewell(self, job_id: str) -> None:
        """No further call will come: ranks that hold leave, and the job keeps its results."""

    # --- files ---------------------------------------------------------------------------------------------------

    def has_blob(self, sha256: str) -> bool: ...

    def put_blob(self, source: Path | bytes) -> Blob:
        """Store a file or bytes under their SHA-256 (streamed, atomic, idempotent)."""

    def open_blob(self, sha256: str) -> BinaryIO: ...

    def fetch_blob(self, sha256: str, to: Path) -> None:
        """Write a blob to a local path, atomically: a reflink where the file system can, else a copy."""

    def artifacts(self, job_id: str, *, attempt: int | None = None) -> list[Artifact]:
        """Return the files of a job, as ``node<r>/<path>``, of its latest attempt unless told otherwise."""

    def remove_artifacts(self, job_id: str, paths: Sequence[str]) -> list[Artifact]:
        """Forget files of an ended job, and return them; raises ``ArtifactNotFound``, and ``InvalidJob`` for a checkpoint's."""

    def checkpoints(self, job_id: str) -> list[Checkpoint]:
        """Return the complete checkpoints of a job, oldest first; those that the job deleted are marked ``removed``."""

    # --- secrets -------------------------------------------------------------------------------------------------

    def set_secret(self, name: str, value: str) -> None:
        """Store a secret, in the place of an older one of that name; raises ``InvalidSecret``."""

    def secret_names(self) -> list[str]: ...

    def remove_secret(self, name: str) -> None:
        """Forget a secret; raises ``SecretNotFound``. Jobs that run keep what they were given."""

    def secrets_of(self, job_id: str) -> dict[str, str]:
        """Return the values that a job names, for the worker that is about to start its processes."""

    # --- workers -------------------------------------------------------------------------------------------------

    def workers(self) -> list[WorkerRecord]: ...

    def drain(self, worker_id: str) -> None: ...

    def remove_worker(self, worker_id: str) -> None: ...

    def register(self, info: WorkerInfo) -> WorkerRecord: ...

    def unregister(self, worker_id: str) -> None: ...

    def orders(self, worker_id: str, *, seen: int = 0, timeout_s: float = 0.0) -> Orders:
        """Wait until the worker's orders differ from version ``seen`` (or the timeout passed); also renews its lease."""

    def report(self, report: Report) -> None:
        """Tell what happened to a task. A report of a passed attempt changes no state; ``StaleReport`` tells fenced workers."""

    def append_lines(self, job_id: str, lines: Sequence[LogLine]) -> None:
        """Store lines; those at or below the stored high-water mark of their (attempt, node_rank, rank, stream) are dropped.

        ``LogFull`` says that the plane keeps no more of what this job prints.
        """

    def log_marks(self, job_id: str, attempt: int, node_rank: int) -> dict[str, int]:
        """Return the highest stored ``seq`` for each "rank/stream" of one node ("none/agent" for the agent's)."""

    def lines(self, job_id: str, *, rank: int | None = None, tail: int | None = None) -> Iterable[LogLine]:
        """Return the stored lines of all attempts, in the order of their arrival."""


def open(
    target: str | Path | None = None,
    *,
    process: str | None = None,
    process_id: str | None = None,
    token: str | None = None,
) -> Plane:
    """Open the plane at a URL or in a home (the settings' one when not given).

    ``process`` is the kind of program that opens it (caller, worker, cli): it is known to the plane under ``process_id`` (a
    fresh one when not given), in a home by a lock that says whether it lives. ``token`` opens a URL; the settings' one when
    not given. Raises the errors of ``HomeError`` for a home that can't be used. A URL is first asked by the first call.
    """
    found = settings.read()
    if target is None:
        target = found.url or found.home
    if isinstance(target, str) and "://" in target:
        from gpulayer.plane import remote
        from gpulayer.transport.address import Address

        address = Address(target, token or token_of(found), found.ca_cert, found.insecure)
        return remote.RemotePlane(address, process=process or "caller", process_id=process_id)
    from gpulayer.control.server import app

    return app.open_home(Path(target), process=process or "caller", process_id=process_id)


def token_of(found: Settings) -> str | None:
    """Return the token that opens the settings' plane, read from its file where one is named."""
    if found.token is not None or found.token_file is None:
        return found.token
    try:
        token = found.token_file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as cause:
        raise Unauthorized(f"The token in {found.token_file} can't be read: {cause}.") from cause
    if not token:
        raise Unauthorized(f"{found.token_file} holds no token: it is empty.")
    return token
