"""Choosing a checkpoint to go on from, among those that jobs announced as complete."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from gpulayer.artifacts import landing
from gpulayer.errors import ArtifactNotFound
from gpulayer.plane import Plane
from gpulayer.spec.files import Artifact, Checkpoint
from gpulayer.spec.records import JobRecord

SCHEME = "gpulayer://"


def newest(checkpoints: Iterable[Checkpoint]) -> Checkpoint | None:
    """Return the newest complete checkpoint; one that the job deleted only when nothing else is left."""
    found = sorted(checkpoints, key=lambda each: (not each.removed, each.created_at))
    return found[-1] if found else None


def best(checkpoints: Iterable[Checkpoint]) -> Checkpoint | None:
    """Return the checkpoint with the best score of those that the job kept; where better is unknown, the newest with a score.

    Of several monitored values the one that was announced first counts, as a Trainer's first checkpoint callback does.
    """
    scored = [each for each in checkpoints if each.score is not None]
    kept = [each for each in scored if not each.removed and each.monitor == scored[0].monitor]
    if not kept:
        return None
    mode = kept[-1].mode
    if mode is None:
        return kept[-1]
    return (min if mode == "min" else max)(kept, key=lambda each: each.score or 0.0)


def previous_of(plane: Plane, belongs: Callable[[JobRecord], bool]) -> tuple[JobRecord, Checkpoint] | None:
    """Return the newest checkpoint of the newest job that ``belongs`` and has one, however that job ended."""
    for job in plane.jobs():
        if belongs(job):
            found = newest(plane.checkpoints(job.id))
            if found is not None:
                return job, found
    return None


def fetch(plane: Plane, checkpoint: Checkpoint, below: Path) -> Path:
    """Put a checkpoint's files below a folder, each once, and return its path there."""
    place = below / f"{checkpoint.job_id}.{checkpoint.attempt}" / str(checkpoint.serial)
    for entry in checkpoint.entries:
        target = landing.below(place, entry.path)
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            plane.fetch_blob(entry.blob.sha256, target)
    return place / landing.plain(checkpoint.path.rstrip("/"))


def by_url(plane: Plane, url: str, below: Path) -> Path:
    """Fetch what ``gpulayer://<job>/last``, ``/best`` or ``/node0/<path>`` names."""
    found = find(plane, url)
    return fetch(plane, found, below) if isinstance(found, Checkpoint) else _fetch_files(plane, found, below)


def find(plane: Plane, url: str) -> Checkpoint | JobPath:
    """Return what a URL names, a checkpoint or other files of a job; raises ``NotFound`` where it names nothing."""
    job_id, _, rest = url.removeprefix(SCHEME).partition("/")
    job = plane.job(job_id)
    complete = plane.checkpoints(job.id)
    chosen = {"last": newest, "best": best}.get(rest)
    if chosen is None:
        path = rest.partition("/")[2]
        wanted = [each for each in complete if each.path.rstrip("/") in (rest.rstrip("/"), path.rstrip("/"))]
        return wanted[-1] if wanted else _files(plane, job.id, rest)
    found = chosen(complete)
    if found is None:
        raise ArtifactNotFound(f"{job.id} has no complete checkpoint to take as its {rest}.", job_id=job.id)
    return found


def url_of(checkpoint: Checkpoint) -> str:
    """Return the URL that names a checkpoint."""
    return f"{SCHEME}{checkpoint.job_id}/node0/{checkpoint.path}"


@dataclass(frozen=True)
class JobPath:
    """A path in a job's outputs, and the files at or below it."""

    job_id: str
    path: str
    files: tuple[Artifact, ...]


def _files(plane: Plane, job_id: str, path: str) -> JobPath:
    found = [each for each in plane.artifacts(job_id) if each.path == path or each.path.startswith(path.rstrip("/") + "/")]
    if not found:
        raise ArtifactNotFound(f"{job_id} has no file {path}.", job_id=job_id, path=path)
    return JobPath(job_id, path, tuple(found))


def _fetch_files(plane: Plane, found: JobPath, below: Path) -> Path:
    for each in found.files:
        target = landing.below(below / found.job_id, each.path)
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            plane.fetch_blob(each.blob.sha256, target)
    return below / found.job_id / found.path
