"""Keeps a rank's share of a checkpoint safe from the job's own deletions, and makes it known when it is stored."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from pydantic import ValidationError

from gpulayer.artifacts import copying
from gpulayer.spec.base import Record
from gpulayer.spec.files import Blob, CheckpointShare, FileEntry
from gpulayer.spec.rank_messages import Announce
from gpulayer.spec.records import Order

_NOTE = "save.json"


class KeptFile(Record):
    """``copy`` is its name among the kept, ``path`` the one below the output folder."""

    copy_name: str
    path: str
    mode: int
    mtime: float


class KeptSave(Record):
    """What a rank saved, with a note beside the copies: a worker that is killed leaves them to the next."""

    rank: int
    announce: Announce
    path: str
    files: tuple[KeptFile, ...]


def keep(rank: int, announce: Announce, work: Path, into: Path) -> KeptSave:
    """Copy the announced files aside; a file that is gone already is left out, as the job itself deleted it."""
    kept = []
    into.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(announce.files):
        try:
            found = os.stat(name)
            copying.copy(Path(name), into / str(number))
        except FileNotFoundError:
            continue
        place = output_path(name, work)
        kept.append(KeptFile(copy_name=str(number), path=place, mode=found.st_mode & 0o777, mtime=found.st_mtime))
    save = KeptSave(rank=rank, announce=announce, path=output_path(announce.path, work), files=tuple(kept))
    part = into / f"{_NOTE}.part"
    part.write_text(save.model_dump_json())
    part.replace(into / _NOTE)
    return save


def left(kept: Path) -> list[tuple[Path, KeptSave]]:
    """Return the saves that were not made known yet, with their folders, in the order of their making."""
    found = []
    for path in kept.glob(f"*/{_NOTE}"):
        try:
            found.append((path.parent, KeptSave.model_validate_json(path.read_bytes())))
        except (OSError, ValidationError):
            continue
    return sorted(found, key=lambda each: (each[1].announce.serial, each[1].rank))


def share(order: Order, save: KeptSave, folder: Path, put: Callable[[Path], Blob]) -> CheckpointShare:
    """Store the kept files and return the rank's share."""
    entries = tuple(
        FileEntry(path=file.path, blob=put(folder / file.copy_name), mode=file.mode, mtime=file.mtime) for file in save.files
    )
    announce = save.announce
    return CheckpointShare(
        job_id=order.job_id,
        attempt=order.attempt,
        rank=save.rank,
        path=save.path,
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
    name = os.path.normpath(name)
    for root in (work, Path(os.path.realpath(work))):
        if Path(name).is_relative_to(root):
            return Path(name).relative_to(root).as_posix()
    return Path("abs", *Path(name).parts[1:]).as_posix()
