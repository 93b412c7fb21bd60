"""Has a job's inputs travel with it: files of the caller and files of other jobs become blobs that its workers may fetch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from gpulayer.errors import ArtifactNotFound, InvalidJob
from gpulayer.plane import Plane
from gpulayer.spec.files import Blob, FileEntry
from gpulayer.spec.job import Input, JobBase

MOST_FILES = 10_000
"""A spec names each file; a folder of more is better packed into one."""
_OF_JOBS = "gpulayer"
_HERE = ("file", "local")

AnyJob = TypeVar("AnyJob", bound=JobBase)


def carried(plane: Plane, job: AnyJob) -> AnyJob:
    """Return the job with inputs that any worker it may get can fetch; raises ``InvalidJob`` for a path that isn't there.

    A path or ``file://`` is one of the caller's machine: it is uploaded, unless the job stays on that. ``gpulayer://`` becomes
    what it stands for now. Other URLs are for the worker to open.
    """
    if not job.inputs:
        return job
    stays = job.placement.target == "local" and set(job.placement.fallback_targets) <= {"local"}
    return job.model_copy(update={"inputs": tuple(_carried(plane, each, stays=stays) for each in job.inputs)})


def _carried(plane: Plane, wanted: Input, *, stays: bool) -> Input:
    scheme, path = _split(wanted.uri)
    if scheme == _OF_JOBS:
        return wanted.model_copy(update={"entries": tuple(_of_job(plane, wanted.uri))})
    if scheme not in _HERE:
        return wanted
    source = Path(os.path.abspath(os.path.expanduser(path)))
    if not source.exists():
        where = "" if str(source) == wanted.uri else f": {source}"
        raise InvalidJob(f"The input {wanted.uri} is not there{where}.", next_step="Name a file, a folder or a URL.")
    if stays:
        return wanted.model_copy(update={"uri": str(source)})
    return wanted.model_copy(update={"entries": tuple(_uploaded(plane, source))})


def _split(uri: str) -> tuple[str, str]:
    """Return the scheme and the rest; a chain of file systems (``zip://a.txt::s3://...``) is none of ours to open."""
    scheme, marked, path = uri.partition("://")
    if "::" in uri:
        return "::", uri
    return (scheme, path) if marked else ("file", uri)


def _of_job(plane: Plane, uri: str) -> Iterator[FileEntry]:
    from gpulayer.client.filesystem import GPULayerFileSystem  # fsspec takes a while to import, and few jobs have inputs

    files = GPULayerFileSystem(plane=plane, skip_instance_cache=True)
    root = files._strip_protocol(uri)
    try:
        found = {root: files.info(root)} if files.isfile(root) else files.find(root, detail=True)
    except ArtifactNotFound as cause:
        raise InvalidJob(f"The input {uri} is not there.", next_step=cause.next_step) from cause
    if not found:
        raise InvalidJob(f"The input {uri} is not there.", next_step=ArtifactNotFound.fix)
    _refuse_too_many(uri, len(found))
    for name, about in sorted(found.items()):
        blob = Blob(sha256=about["sha256"], size=about["size"])
        yield FileEntry(path=name.removeprefix(root).lstrip("/"), blob=blob, mode=about["mode"], mtime=about["mtime"])


def _uploaded(plane: Plane, source: Path) -> Iterator[FileEntry]:
    if source.is_file():
        yield _entry(plane, source, "")
        return
    found = _files_below(source)
    _refuse_too_many(str(source), len(found))
    for file in sorted(found):
        yield _entry(plane, file, file.relative_to(source).as_posix())


def _files_below(source: Path) -> list[Path]:
    found: list[Path] = []
    for folder, _, names in os.walk(source, followlinks=True):
        found += [path for name in names if (path := Path(folder, name)).is_file()]
        if len(found) > MOST_FILES:  # a link that leads back to its own folder never ends
            break
    return found


def _refuse_too_many(uri: str, count: int) -> None:
    if count > MOST_FILES:
        raise InvalidJob(
            f"The input {uri} has more than {MOST_FILES:,} files.", next_step="Pack it into one file, or name a URL."
        )


def _entry(plane: Plane, file: Path, path: str) -> FileEntry:
    about = file.stat()
    return FileEntry(path=path, blob=plane.put_blob(file), mode=about.st_mode & 0o777, mtime=about.st_mtime)
