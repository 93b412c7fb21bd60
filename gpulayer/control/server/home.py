"""The folder of an embedded plane: what lies where, and whether it can be used at all."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gpulayer.control.store.sqlite import errors_named
from gpulayer.errors import HomeOnNetworkFilesystem

# fmt: off
NETWORK = frozenset((
    "nfs", "nfs4", "cifs", "smb2", "smb3", "smbfs", "ncpfs", "afs", "coda", "ceph", "lustre", "gpfs", "beegfs", "glusterfs",
    "orangefs", "ocfs2", "gfs2", "davfs", "fuse.sshfs", "fuse.s3fs", "fuse.glusterfs", "fuse.ceph",
    "fuse.gcsfuse", "fuse.rclone", "fuse.mount-s3", "fuse.juicefs", "fuse.beegfs", "fuse.blobfuse2",
))
# fmt: on
"""File systems on which SQLite's locks and shared memory don't reach the other machines."""


@dataclass(frozen=True)
class Home:
    """Paths below one home."""

    root: Path

    @property
    def database(self) -> Path:
        return self.root / "plane.db"

    @property
    def blobs(self) -> Path:
        return self.root / "blobs"

    @property
    def locks(self) -> Path:
        return self.root / "locks"

    @property
    def secrets_key(self) -> Path:
        return self.root / "secrets.key"

    def process_lock(self, process_id: str) -> Path:
        return self.locks / process_id

    def task_lock(self, job_id: str, attempt: int, node_rank: int) -> Path:
        return self.locks / f"task-{job_id}.{attempt}.{node_rank}"

    def task_locks_of(self, job_id: str) -> list[Path]:
        """Return the lock files that guards of a job left."""
        return list(self.locks.glob(f"task-{job_id}.*"))

    def folders_of(self, job_id: str) -> list[Path]:
        """Return the task and work folders of a job that exist."""
        return [path for parent in ("tasks", "work") for path in (self.root / parent).glob(f"{job_id}.*")]


def prepare(root: Path) -> Home:
    """Make the folders of a home that aren't there; raises the errors of ``HomeError``."""
    home = Home(Path(os.path.abspath(root)))
    refuse_network(home.root)
    with errors_named(home.root):
        home.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        home.locks.mkdir(exist_ok=True)
    return home


def refuse_network(root: Path) -> None:
    """Raise ``HomeOnNetworkFilesystem`` where SQLite can't be trusted."""
    if sys.platform != "linux":
        return
    kind = filesystem_of(os.path.realpath(root), Path("/proc/mounts").read_text().splitlines())
    if kind in NETWORK:
        raise HomeOnNetworkFilesystem(f"{root} is on a network file system ({kind}).", home=str(root), filesystem=kind)


def filesystem_of(path: str, mounts: Iterable[str]) -> str:
    """Return the type of the file system that holds ``path`` (real, absolute), given the lines of /proc/mounts."""
    best, kind = "", ""
    for line in mounts:
        _, point, found, *_ = line.split(" ")
        point = point.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):  # a later mount on the same point hides the earlier
            best, kind = point, found
    return kind
