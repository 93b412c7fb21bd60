"""Where a job's source is: the folder that travels, and what is started in it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpulayer.artifacts import bundle
from gpulayer.client.source import StoredSource
from gpulayer.errors import EntrypointMissing


@dataclass(frozen=True)
class Place:
    """The folder that travels, and the one below it in which the job starts; both absolute."""

    root: Path
    cwd: Path

    def fields(self, stored: StoredSource, *, local: bool = True) -> dict[str, Any]:
        """Return what a job spec says of its source; the folder itself is named to workers on this machine alone."""
        here = {"left_out": stored.left_out, "source_root": str(self.root)} if local else {}
        return {"source": stored.sha256, "cwd": self.cwd.relative_to(self.root).as_posix(), **here}


def place_of(near: Path, source_dir: str | None) -> Place:
    """Choose the folder: the one named, else the project around ``near``.

    The job starts where the person stands, if that travels.
    """
    root, cwd = bundle.find_root(near, source_dir), Path.cwd()
    return Place(root, cwd if cwd.is_relative_to(root) else root)


def locate(entrypoint: str, source: str | None, *, module: bool) -> tuple[Place, str, tuple[Path, ...]]:
    """Find the source folder, the entry point as a DistributedJob names it, and the files that must travel."""
    if module or (":" in entrypoint and not os.path.exists(entrypoint)):
        return place_of(Path.cwd() / "-", source), f"-m {entrypoint}" if module else entrypoint, ()
    script = absolute(entrypoint)
    if not script.is_file():
        raise EntrypointMissing(f"There is no script {entrypoint}.", entrypoint=entrypoint)
    place = place_of(script, source)
    if not script.is_relative_to(place.root):
        next_step = "Name a folder that holds it with --source."
        raise EntrypointMissing(f"The script {script} is not below {place.root}.", next_step=next_step, entrypoint=entrypoint)
    return place, os.path.relpath(script, place.cwd), (script,)


def absolute(path: str) -> Path:
    """Return an absolute path without resolving links."""
    return Path(os.path.abspath(path))
