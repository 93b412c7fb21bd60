"""Where a file may be written whose name came from elsewhere: below the folder it is for, and nowhere else."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from gpulayer.errors import UnsafePath
from gpulayer.spec.files import is_below


def plain(path: str) -> PurePosixPath:
    """Return a relative path of names alone; any other is refused, as whoever wrote it meant another place."""
    if not is_below(path):
        raise UnsafePath(f"{path!r} is no path below the folder it is to be written to.", path=path)
    return PurePosixPath(path)


def below(folder: Path, path: str) -> Path:
    """Return the place of a file below ``folder``; a name that leaves it, by itself or through a link there, is refused."""
    target = folder / plain(path)
    if not target.parent.resolve().is_relative_to(folder.resolve()):
        raise UnsafePath(f"{path!r} leads out of {folder} through a link.", path=path, folder=str(folder))
    return target
