"""What a worker notes in a task's folder, for the next one that finds it there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from gpulayer.spec.base import Record
from gpulayer.spec.records import Order
from gpulayer.spec.workers import WorkerInfo
from gpulayer.worker import processes
from gpulayer.worker.stopping import Ending

_ORDER, _ENDING = "order.json", "ending.json"


class TaskNote(Record):
    """Whose task it is; ``host`` and its start tell whether the process that drives it still lives.

    A worker that ``stays`` comes back for it; one that was there for its caller only does not.
    """

    worker_id: str
    stays: bool
    order: Order
    host: int
    host_started: int

    @property
    def alive(self) -> bool:
        found = processes.stat(self.host)
        return found is not None and found.alive and found.started == self.host_started


def write(root: Path, me: WorkerInfo, order: Order) -> None:
    """Note in a task's folder that this process drives it for a worker."""
    claim(root, TaskNote(worker_id=me.id, stays=me.owner is None, order=order, host=0, host_started=0))


def claim(root: Path, note: TaskNote) -> None:
    """Note in a task's folder that this process sees to it from now on."""
    us = processes.stat(os.getpid())
    ours = note.model_copy(update={"host": os.getpid(), "host_started": us.started if us else 0})
    _write(root / _ORDER, ours.model_dump_json())


def write_ending(root: Path, ending: Ending) -> None:
    """Note how a task ended, before the plane is told."""
    _write(root / _ENDING, ending.model_dump_json())


def named(order: Order) -> str:
    """Name a task in a worker's log."""
    return f"{order.job_id} attempt {order.attempt}, node {order.node_rank}"


def left(tasks: Path) -> Iterator[tuple[Path, TaskNote]]:
    """Yield the tasks whose host is dead, with their folders."""
    for path in sorted(tasks.glob(f"*/{_ORDER}")):
        try:
            note = TaskNote.model_validate_json(path.read_bytes())
        except (OSError, ValidationError):  # removed meanwhile, or of another version
            continue
        if not note.alive:
            yield path.parent, note


def ending(root: Path) -> Ending | None:
    """Return how a task ended, if its worker still noted that."""
    try:
        return Ending.model_validate_json((root / _ENDING).read_bytes())
    except (OSError, ValidationError):
        return None


def _write(path: Path, text: str) -> None:
    beside = path.with_suffix(".part")
    beside.write_text(text)
    beside.replace(path)
