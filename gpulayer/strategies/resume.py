"""From what a script passes as ``ckpt_path`` to the file that the ranks load."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpulayer.client import checkpoints, choice
from gpulayer.errors import NotFound
from gpulayer.plane import Plane
from gpulayer.spec.job import CommandJob, DistributedJob, FunctionJob
from gpulayer.spec.records import JobRecord
from gpulayer.strategies import call_settings, fingerprint, names, parts

if TYPE_CHECKING:
    from gpulayer.strategies.session import CallRequest

_FILE = "file://"


@dataclass(frozen=True)
class Found:
    """The file that the ranks load: its absolute path or URL, and what ``trainer.ckpt_path`` calls it.

    ``again`` says that it counts whatever the script passes: the call was broken off, and goes on from there.
    """

    path: str
    shown: str
    again: bool = False


def check(request: CallRequest, plane: Callable[[], Plane]) -> None:
    """Refuse a ``ckpt_path`` that names nothing, as Lightning does in a local run, before anything is sent."""
    asked = request.ckpt_path
    if asked is None and parts.user_checkpoint(request.trainer) is not None:
        asked = os.fspath(parts.user_checkpoint(request.trainer))
    if asked and asked.startswith("registry"):
        return
    if not asked or fingerprint.is_keyword(asked):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what Lightning warns of, it says in the call itself
            parts.resolve_checkpoint(request.trainer, asked, request.model_given)
    elif asked.startswith(checkpoints.SCHEME):
        try:
            checkpoints.find(plane(), asked)
        except NotFound as cause:
            raise _not_found(request.ckpt_path) from cause
    elif _is_the_callers(asked, request.options.target) and not os.path.exists(_local(asked)):
        raise _not_found(asked)


def _not_found(asked: str | None) -> FileNotFoundError:
    return FileNotFoundError(f"Checkpoint file not found: {asked}")


def _is_the_callers(asked: str, target: str | None) -> bool:
    """Say whether a path is one of this machine's: on other ones an absolute path may be theirs."""
    path = asked.removeprefix(_FILE)
    if "://" in path:
        return False
    return target == "local" or not os.path.isabs(path) or Path(path).is_relative_to(os.getcwd())


def _local(asked: str) -> str:
    return os.path.abspath(os.path.expanduser(asked.removeprefix(_FILE)))


def resolve(request: CallRequest, plane: Plane, folder: Path, current: JobRecord, paths: Mapping[str, str]) -> Found | None:
    """Return what to load, None where Lightning's own choice in the job is right.

    ``folder`` is where checkpoints of other jobs are put. ``"last"`` is the newest of what Lightning would find here and
    of what the previous job with the same name and script announced, however it ended. ``paths`` are those of the caller's, by
    URL, whose files stayed with their jobs: the current job has its own of them.
    """

    def by_url(url: str) -> Found:
        if url in paths and url.startswith(f"{checkpoints.SCHEME}{current.id}/"):
            return Found(paths[url], url)
        return Found(str(checkpoints.by_url(plane, url, folder)), url)

    if request.goes_on_from is not None:
        return Found(str(checkpoints.by_url(plane, request.goes_on_from, folder)), request.goes_on_from, again=True)
    asked = request.ckpt_path
    if asked in (None, "best"):  # which may be known here by a URL alone
        meant = call_settings.resolved(request.trainer, asked, request.model_given)
        return by_url(meant) if meant is not None and meant.startswith(checkpoints.SCHEME) else None
    if asked == "last":
        return _last(request, plane, folder, current, paths)
    if asked.startswith(checkpoints.SCHEME):
        return by_url(asked)
    if "://" in asked or asked in ("best", "hpc") or asked.startswith("registry"):
        return None
    return Found(_local(asked), asked)


def _last(request: CallRequest, plane: Plane, folder: Path, current: JobRecord, paths: Mapping[str, str]) -> Found | None:
    found = names.last_checkpoints(request.trainer)
    newest = max(found, key=os.path.getmtime, default=None)
    own = checkpoints.newest(plane.checkpoints(current.id)) if paths else None
    url = "" if own is None else choice.url_of(own)
    if own is not None and url in paths and (newest is None or own.created_at > os.path.getmtime(newest)):
        return Found(paths[url], url)
    before = checkpoints.previous_of(plane, lambda job: job.id != current.id and _program(job) == _program(current))
    if before is not None and (newest is None or before[1].created_at > os.path.getmtime(newest) + 1):
        return Found(str(checkpoints.fetch(plane, before[1], folder)), checkpoints.url_of(before[1]))
    return None if newest is None else Found(newest, newest)


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
