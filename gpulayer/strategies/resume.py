"""From what a script passes as ``ckpt_path`` to the file that the ranks load."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from gpulayer.client import checkpoints
from gpulayer.plane import Plane
from gpulayer.spec.job import CommandJob, DistributedJob, FunctionJob
from gpulayer.spec.records import JobRecord
from gpulayer.strategies import names

if TYPE_CHECKING:
    from gpulayer.strategies.session import CallRequest


def resolve(request: CallRequest, plane: Plane, folder: Path, current: JobRecord) -> str | None:
    """Return the absolute path (or URL) to load, None where Lightning's own choice in the job is right.

    ``folder`` is where checkpoints of other jobs are put. ``"last"`` is the newest of what Lightning would find here and
    of what the previous job with the same name and script announced, however it ended.
    """
    asked = request.ckpt_path
    if asked is None:
        return None
    if asked == "last":
        return _last(request, plane, folder, current)
    if asked.startswith(checkpoints.SCHEME):
        return str(checkpoints.by_url(plane, asked, folder))
    if "://" in asked or asked in ("best", "hpc") or asked.startswith("registry"):
        return None
    return os.path.abspath(asked)


def _last(request: CallRequest, plane: Plane, folder: Path, current: JobRecord) -> str | None:
    found = names.last_checkpoints(request.trainer)
    newest = max(found, key=os.path.getmtime, default=None)
    before = checkpoints.previous_of(plane, lambda job: job.id != current.id and _program(job) == _program(current))
    if before is not None and (newest is None or before[1].created_at > os.path.getmtime(newest) + 1):
        return str(checkpoints.fetch(plane, before[1], folder))
    return newest


def _program(job: JobRecord) -> tuple[object, ...]:
    """What makes two jobs runs of one program: the name, the script, and the folder it comes from."""
    spec: CommandJob | FunctionJob | DistributedJob = job.spec
    root = spec.calls.root if spec.calls is not None else None
    match spec:
        case CommandJob():
            words = spec.command[3:]
            script = f"-m {words[1]}" if words[:1] == ("-m",) else words[0] if words else ""
        case DistributedJob():
            script = spec.entrypoint
        case FunctionJob():
            script = spec.function
    return spec.name, script, root
