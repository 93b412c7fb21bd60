"""Files that a job leaves: entries, manifests, checkpoints."""

from __future__ import annotations

import os
import re
from pathlib import PurePosixPath
from typing import Literal

from gpulayer.spec.base import Record


class Blob(Record):
    """Bytes in the store, named by their SHA-256 (hex); ``size`` in bytes."""

    sha256: str
    size: int


class FileEntry(Record):
    """A file below a node's output folder; ``path`` is relative with forward slashes."""

    path: str
    blob: Blob
    mode: int = 0o644
    mtime: float = 0.0


class Manifest(Record):
    """The outputs of one node of one attempt, as known so far; a later one replaces an earlier one."""

    job_id: str
    attempt: int
    node_rank: int
    entries: tuple[FileEntry, ...]
    call: int | None = None
    """The call after which it was taken; None for the final one."""
    final: bool = False


class Artifact(Record):
    """A file as people see it: ``node<r>/<path>``."""

    job_id: str
    attempt: int
    path: str
    blob: Blob
    mode: int = 0o644
    mtime: float = 0.0


class CheckpointShare(Record):
    """What one rank announced of one checkpoint: complete when all ranks announced and all files are stored."""

    job_id: str
    attempt: int
    rank: int
    path: str
    """The checkpoint's path relative to the output folder; for a sharded one, the folder."""
    serial: int
    """Counts the saves of this rank, so that a rewritten path is another checkpoint."""
    entries: tuple[FileEntry, ...]
    """The files this rank wrote (none for a rank that wrote nothing)."""
    epoch: int | None = None
    step: int | None = None
    monitor: str | None = None
    score: float | None = None
    mode: Literal["min", "max"] | None = None
    """Whether a lower or a higher score is the better one."""
    removed: bool = False
    """Announces that the job deleted it (top-k)."""


class Checkpoint(Record):
    """A checkpoint that is whole: every rank announced it and all its files are stored."""

    job_id: str
    attempt: int
    path: str
    serial: int
    created_at: float
    entries: tuple[FileEntry, ...]
    epoch: int | None = None
    step: int | None = None
    monitor: str | None = None
    score: float | None = None
    mode: Literal["min", "max"] | None = None
    """Whether a lower or a higher score is the better one."""
    removed: bool = False


_SHA256 = re.compile(r"[0-9a-f]{64}\Z")


def is_below(path: str) -> bool:
    """Say whether a path names one file below the folder that it is put into, written in the one way that there is."""
    return "\0" not in path and not any(part in ("", ".", "..") for part in path.split("/"))


def is_digest(text: str) -> bool:
    """Say whether a text can be the SHA-256 of a blob: 64 lower-case hexadecimal digits."""
    return _SHA256.match(text) is not None


def is_named_blob(blob: Blob) -> bool:
    """Say whether a blob is named by what can be the digest of its bytes."""
    return is_digest(blob.sha256) and blob.size >= 0


def inside(path: str) -> PurePosixPath:
    """Return a relative path that stays below the folder that it is put into, whatever was written."""
    return PurePosixPath(os.path.normpath("/" + path.lstrip("/"))).relative_to("/")
