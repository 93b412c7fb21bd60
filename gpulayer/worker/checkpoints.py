"""Keeps a rank's share of a checkpoint safe from the job's own deletions, and makes it known when it is stored."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gpulayer.artifacts import copying
from gpulayer.spec.files import Blob, CheckpointShare, FileEntry
from gpulayer.spec.rank_messages import Announce
from gpulayer.spec.records import Order


@dataclass(frozen=True)
class KeptFile:
    copy: Path
    path: str
    mode: int
    mtime: float


def keep(announce: Announce, work: Path, into: Path) -> list[KeptFile]:
    """Copy the announced files aside; a file that is gone already is left out, as the job itself deleted it."""
    kept = []
    for number, name in enumerate(announce.files):
        copy = into / str(number)
        try:
            found = os.stat(name)
            copying.copy(Path(name), copy)
        except FileNotFoundError:
            continue
        kept.append(KeptFile(copy, output_path(name, work), found.st_mode & 0o777, found.st_mtime))
    return kept


def share(
    order: Order, rank: int, announce: Announce, kept: list[KeptFile], work: Path, put: Callable[[Path], Blob]
) -> CheckpointShare:
    """Store the kept files and return the rank's share; the copies are removed."""
    entries = tuple(FileEntry(path=file.path, blob=put(file.copy), mode=file.mode, mtime=file.mtime) for file in kept)
    for folder in {file.copy.parent for file in kept}:
        shutil.rmtree(folder, ignore_errors=True)
    return CheckpointShare(
        job_id=order.job_id,
        attempt=order.attempt,
        rank=rank,
        path=output_path(announce.path, work),
        serial=announce.serial,
        entries=entries,
        epoch=announce.epoch,
        step=announce.step,
        monitor=announce.monitor,
        score=announce.score,
        mode=announce.mode,
        removed=announce.removed,
    )


def output_path(name: str, work: Path) -> str:
    """Return an absolute path relative to the output folder; one outside of it goes below ``abs/``."""
    for root in (work, Path(os.path.realpath(work))):
        if Path(name).is_relative_to(root):
            return Path(name).relative_to(root).as_posix()
    return Path("abs", *Path(name).parts[1:]).as_posix()
