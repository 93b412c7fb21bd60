"""Which of a job's files come home now: all of them, or of its checkpoints the best, the last, or none."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from gpulayer.client import checkpoints
from gpulayer.client.options import Fetch
from gpulayer.spec.files import Artifact, Checkpoint

SMALL = 100_000_000
"""The size in bytes of a file that comes home with the metrics."""


@dataclass(frozen=True)
class Choice:
    """``urls`` are those of the job's checkpoints, by path below the work folder; of them ``kept`` come, paths at the caller.

    ``blobs`` are the checkpoints' files: a link to one is one. Of other files those of at most ``limit`` bytes come.
    """

    urls: Mapping[str, str]
    blobs: Collection[str]
    kept: Collection[str]
    limit: int | None
    place: Callable[[str], Path]

    def takes(self, path: str, artifact: Artifact) -> bool:
        """Say whether a file comes; ``path`` is its place below the work folder."""
        if self._is_checkpoints(path, artifact):
            place = self.place(path)
            return any(str(each) in self.kept for each in (place, *place.parents))
        return self.limit is None or artifact.blob.size <= self.limit

    def stays_as(self, path: str, artifact: Artifact) -> tuple[Path, str] | None:
        """Return what a checkpoint that stays is called at the caller, and the URL that it opens by."""
        if not self._is_checkpoints(path, artifact):
            return None
        whole = self._checkpoint_of(path)
        return self.place(whole), self.urls.get(whole, f"{checkpoints.SCHEME}{artifact.job_id}/{artifact.path}")

    def _is_checkpoints(self, path: str, artifact: Artifact) -> bool:
        return artifact.blob.sha256 in self.blobs or self._checkpoint_of(path) in self.urls

    def _checkpoint_of(self, path: str) -> str:
        above = (path, *map(str, PurePosixPath(path).parents))
        return next((each for each in above if each in self.urls), path)


def choose(fetch: Fetch, complete: list[Checkpoint], named: Collection[str], place: Callable[[str], Path]) -> Choice | None:
    """Choose among a job's files; None stands for all. ``named`` are the paths that its callbacks call their best or last.

    Where they name none, what the job announced decides.
    """
    if fetch == "all":
        return None
    kept: Iterable[str] = named
    if fetch == "metrics":
        kept = ()
    elif not named:
        found = (checkpoints.best(complete) if fetch == "best" else None) or checkpoints.newest(complete)
        kept = () if found is None else [str(place(found.path.rstrip("/")))]
    return Choice(
        urls={each.path.rstrip("/"): url_of(each) for each in complete},
        blobs=frozenset(entry.blob.sha256 for each in complete for entry in each.entries),
        kept=frozenset(kept),
        limit=SMALL if fetch == "metrics" else None,
        place=place,
    )


def url_of(checkpoint: Checkpoint) -> str:
    """Name a checkpoint: a folder may lie on several nodes, and is whole by its own path alone."""
    path = checkpoint.path.rstrip("/")
    one = [entry.path for entry in checkpoint.entries] == [path]
    return checkpoints.url_of(checkpoint) if one else f"{checkpoints.SCHEME}{checkpoint.job_id}/{path}"
