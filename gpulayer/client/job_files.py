"""The files of one job as a tree: by node, by checkpoint, and the two checkpoints that have a name of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain

from gpulayer.client import checkpoints
from gpulayer.plane import Plane
from gpulayer.spec.files import Artifact, Checkpoint, FileEntry

JobFile = Artifact | FileEntry


class FolderInfo:
    """Says that a path is a folder."""


@dataclass(frozen=True)
class JobFiles:
    """Files by path; ``named`` (below ``last`` and ``best``) are found, but not listed in the job's folder."""

    files: Mapping[str, JobFile]
    named: Mapping[str, JobFile] = field(default_factory=dict)

    def look(self, path: str) -> JobFile | FolderInfo | None:
        """Return what is at a path; the job's own folder (an empty path) is always there."""
        found = self.files.get(path) or self.named.get(path)
        if found is None and (not path or any(name.startswith(f"{path}/") for name in self._names())):
            return FolderInfo()
        return found

    def inside(self, folder: str) -> list[tuple[str, JobFile | FolderInfo]]:
        """Return what a folder holds, by path."""
        start = f"{folder}/" if folder else ""
        names = self.files if not folder else self._names()
        heads = {start + name[len(start) :].partition("/")[0] for name in names if name.startswith(start)}
        return [(head, found) for head in sorted(heads) if (found := self.look(head)) is not None]

    def _names(self) -> Iterable[str]:
        return chain(self.files, self.named)


def read_job_files(plane: Plane, job_id: str) -> JobFiles:
    """Ask a plane for the files of a job, of its latest attempt, with all its complete checkpoints."""
    return arrange(plane.artifacts(job_id), plane.checkpoints(job_id))


def arrange(artifacts: Iterable[Artifact], complete: list[Checkpoint]) -> JobFiles:
    """Make the tree. A checkpoint of a running job is seen as a file of node 0 as well, until that node's files are indexed."""
    files: dict[str, JobFile] = {each.path: each for each in artifacts}
    indexed = {path.partition("/")[2] for path in files}
    for checkpoint in (each for each in complete if not each.removed):
        for entry in checkpoint.entries:
            files[entry.path] = entry
            if entry.path not in indexed:
                files[f"node0/{entry.path}"] = entry
    named: dict[str, JobFile] = {}
    for name, chosen in (("last", checkpoints.newest(complete)), ("best", checkpoints.best(complete))):
        if chosen is not None:
            named.update({name + entry.path.removeprefix(chosen.path.rstrip("/")): entry for entry in chosen.entries})
    return JobFiles(files, named)
