"""Where the folders and locks of a task lie."""

from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from gpulayer.spec.records import Order
from gpulayer.worker import locks

_LONGEST_TMP = 107 - len("/pymp-12345678/listener-12345678")
SHORT = Path(f"/tmp/gpulayer-{os.getuid()}")
"""Where a task's TMPDIR has a name that is short enough."""


@dataclass(frozen=True)
class TaskFolders:
    """``work`` is the unpacked bundle, the parent of the job's cwd and its output folder; ``root`` is the task's own."""

    root: Path
    work: Path
    lock: Path
    tmp: Path
    """The job's TMPDIR: ``scratch``, or a link to it with a path short enough for the sockets that multiprocessing makes."""

    @property
    def socket_name(self) -> str:
        return "rank.sock"

    @property
    def socket(self) -> Path:
        return self.root / self.socket_name

    @property
    def pipes(self) -> Path:
        return self.root / "pipes"

    @property
    def spool(self) -> Path:
        return self.root / "spool"

    @property
    def bodies(self) -> Path:
        return self.root / "bodies"

    @property
    def kept(self) -> Path:
        return self.root / "kept"

    @property
    def input(self) -> Path:
        return self.root / "input"

    @property
    def scratch(self) -> Path:
        return self.root / "tmp"

    @property
    def baseline(self) -> Path:
        return self.work.with_name(self.work.name + ".baseline")

    @property
    def guard_log(self) -> Path:
        return self.root / "guard.log"

    def make(self) -> None:
        """Create the task's own folders."""
        for folder in (self.root, self.pipes, self.spool, self.scratch, self.bodies, self.kept, self.input, self.lock.parent):
            folder.mkdir(parents=True, exist_ok=True)
        if self.tmp != self.scratch:
            locks.make_private(self.tmp.parent)
            _remove_dead_links(self.tmp.parent)
            self.tmp.unlink(missing_ok=True)
            self.tmp.symlink_to(self.scratch)

    def remove(self) -> None:
        """Remove the task's own folders, and its lock, which nobody holds any more."""
        if self.tmp != self.scratch:
            self.tmp.unlink(missing_ok=True)
        shutil.rmtree(self.root, ignore_errors=True)
        self.lock.unlink(missing_ok=True)


def folders(home: Path, shared: Path, order: Order) -> TaskFolders:
    """Name the folders of a task (see ``Site``)."""
    task = f"{order.job_id}.{order.attempt}.{order.node_rank}"
    root = home / "tasks" / task
    return TaskFolders(
        root=root,
        work=_work(home, shared, order),
        lock=shared / "locks" / f"task-{task}",
        tmp=_short(root / "tmp"),
    )


def _work(home: Path, shared: Path, order: Order) -> Path:
    """Name the work folder, by docs/adr/0026-one-path-on-all-nodes.md.

    Rank 0 tells the others where files are, so a gang's folder has one absolute path on all machines. On one machine the nodes
    of a job with calls share it; those of another job have folders of their own, of which the first is that path.
    """
    attempt = f"{order.job_id}.{order.attempt}"
    if order.num_workers == 1:
        return home / "work" / attempt
    at = 0 if shares_work(order) else order.node_rank - order.machine_rank
    return shared / "work" / (f"{attempt}.{at}" if at else attempt)


def _short(tmp: Path) -> Path:
    if len(os.fsencode(tmp)) <= _LONGEST_TMP:
        return tmp
    return SHORT / hashlib.sha256(os.fsencode(tmp)).hexdigest()[:12]


def _remove_dead_links(folder: Path) -> None:
    """Remove what is left of tasks whose folders are gone: their workers were killed and never started again."""
    for path in folder.iterdir():
        if path.is_symlink() and not path.exists():
            path.unlink(missing_ok=True)


def shares_work(order: Order) -> bool:
    """Say whether the job's nodes on one machine share a work folder."""
    return order.spec.calls is not None


def siblings(shared: Path, order: Order) -> list[Path]:
    """Return the locks of the tasks on this machine that may write into the same work folder."""
    if not shares_work(order):
        return []
    locks_of_attempt = (shared / "locks").glob(f"task-{order.job_id}.{order.attempt}.*")
    return sorted(path for path in locks_of_attempt if path.suffix != f".{order.node_rank}")
