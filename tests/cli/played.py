"""A home with jobs in it, whose worker is played by hand."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpulayer import plane
from gpulayer.plane import Plane
from gpulayer.spec.base import new_id
from gpulayer.spec.files import FileEntry, Manifest
from gpulayer.spec.job import CommandJob
from gpulayer.spec.logs import LogLine, StreamName
from gpulayer.spec.records import JobRecord
from gpulayer.spec.reports import OutputsIndexed, TaskEnded, TaskReady, TaskRunning
from gpulayer.spec.states import Reason, TaskState
from gpulayer.spec.workers import Capabilities, WorkerInfo


class PlayedWorker:
    """Registers in a home and says of its tasks what a test wants it to say."""

    def __init__(self, home: Path, name: str = "box-0") -> None:
        self.plane: Plane = plane.open(home, process="worker")
        here = Capabilities(machine="m1", hostname="box", cpus=2, memory_gb=8.0, frameworks={"torch": "2.13.0"})
        self.info = WorkerInfo(id=new_id("wkr"), name=name, capabilities=here)
        self.plane.register(self.info)

    def begin(self, job: JobRecord) -> None:
        """Start the only task of a job."""
        common = self._common(job)
        self.plane.report(TaskReady(**common))
        self.plane.report(TaskRunning(**common))

    def end(self, job: JobRecord, *, exit_code: int = 0) -> None:
        """End the only task of a job as its process did."""
        good = exit_code == 0
        state, reason = (TaskState.SUCCEEDED, Reason.DONE) if good else (TaskState.FAILED, Reason.EXITED)
        self.plane.report(TaskEnded(**self._common(job), state=state, reason=reason, exit_code=exit_code))

    def print_lines(self, job: JobRecord, *texts: str, rank: int | None = None, stream: StreamName = "stdout") -> None:
        marks = self.plane.log_marks(job.id, 1, 0)
        first = marks.get(f"{'none' if rank is None else rank}/{stream}", -1) + 1
        said = [
            LogLine(
                job_id=job.id, attempt=1, node_rank=0, rank=rank, stream=stream, seq=first + at, time=time.time(), text=text
            )
            for at, text in enumerate(texts)
        ]
        self.plane.append_lines(job.id, said)

    def leave_files(self, job: JobRecord, contents: dict[str, bytes]) -> None:
        entries = [FileEntry(path=path, blob=self.plane.put_blob(data), mtime=time.time()) for path, data in contents.items()]
        manifest = Manifest(job_id=job.id, attempt=1, node_rank=0, entries=tuple(entries), final=True)
        self.plane.report(OutputsIndexed(**self._common(job), manifest=manifest))

    def close(self) -> None:
        self.plane.unregister(self.info.id)
        self.plane.close()

    def _common(self, job: JobRecord) -> dict[str, Any]:
        return {"worker_id": self.info.id, "job_id": job.id, "attempt": 1, "node_rank": 0}


def submit(worker: PlayedWorker, command: Sequence[str] = ("true",), **given: Any) -> JobRecord:
    """Submit a command for the played worker to run."""
    return worker.plane.submit(CommandJob(command=tuple(command), placement={"target": "local"}, **given))
