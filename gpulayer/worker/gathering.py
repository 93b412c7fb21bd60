"""Stores a node's output files: after each call, and at the end."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from pathlib import Path

from gpulayer.artifacts import outputs
from gpulayer.spec.files import FileEntry, Manifest
from gpulayer.spec.records import Order
from gpulayer.spec.reports import CallStored, OutputsIndexed
from gpulayer.worker import calls, clearing, prepare
from gpulayer.worker.layout import TaskFolders
from gpulayer.worker.patience import PatientPlane
from gpulayer.worker.reporter import Reporter

_log = logging.getLogger(__name__)


class Gathering:
    """Stores what is new or changed in the work folder. Where nodes share one, only the tending node looks.

    ``troubles`` are sentences about what could not be stored.
    """

    def __init__(self, order: Order, where: TaskFolders, plane: PatientPlane, reporter: Reporter) -> None:
        self._order = order
        self._where = where
        self._plane = plane
        self._reporter = reporter
        self._asked: set[int] = set()
        self._lock = threading.Lock()
        self._scan = outputs.Scan(where.work, where.baseline, plane.put_blob) if prepare.tends(order) else None
        self.troubles: list[str] = []
        self.count = 0
        """Files that were stored at the end."""

    def due(self, order: Order) -> list[int]:
        """Return the calls whose outputs are to be stored now; each is named once."""
        with self._lock:
            found = calls.to_store(order, self._asked)
            self._asked.update(found)
            return found

    def store_call(self, call: int) -> None:
        """Store the files as they are at the end of a call, when all ranks hold."""
        self._reporter.send(CallStored, call=call, manifest=self._manifest(call, final=False))

    def store_last(self, siblings: Iterable[Path]) -> None:
        """Store the files that the task leaves, once no process writes into a shared folder any more."""
        if self._scan is not None and not clearing.await_free(siblings, clearing.SIBLINGS_S):
            self.troubles.append("Other nodes of the job still wrote when its outputs were stored.")
        manifest = self._manifest(None, final=True)
        if manifest.entries or self._order.spec.calls is not None:  # else nothing of it was told before that is gone now
            self._reporter.send(OutputsIndexed, manifest=manifest)
        self.count = len(manifest.entries)
        if self._scan is not None:
            self.troubles += [f"{path} was not stored: {why}." for path, why in self._scan.passed_over.items()]

    def on_trouble(self, error: Exception) -> None:
        """Take note that something could not be stored."""
        self.troubles.append(f"Not everything could be stored: {error}")

    def _manifest(self, call: int | None, *, final: bool) -> Manifest:
        entries: tuple[FileEntry, ...] = () if self._scan is None else tuple(self._scan.entries())
        order = self._order
        return Manifest(
            job_id=order.job_id, attempt=order.attempt, node_rank=order.node_rank, entries=entries, call=call, final=final
        )
