"""Tells the plane what happens to one task."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, TypeVar

from gpulayer.errors import Forbidden, JobNotFound, LogFull, StaleReport, WorkerRemoved
from gpulayer.logs.scrub import Scrubber
from gpulayer.spec.base import Record
from gpulayer.spec.logs import LogLine
from gpulayer.spec.records import Order
from gpulayer.spec.reports import TaskReport
from gpulayer.spec.workers import WorkerInfo
from gpulayer.worker import secrets
from gpulayer.worker.patience import PatientPlane

R = TypeVar("R", bound=Record)
_log = logging.getLogger(__name__)


class Reporter:
    """Reports about one task of one worker."""

    def __init__(self, plane: PatientPlane, me: WorkerInfo, order: Order) -> None:
        self._plane = plane
        self._scrubber = Scrubber()
        self._lines = 0
        self._common = {
            "worker_id": me.id,
            "incarnation": me.incarnation,
            "job_id": order.job_id,
            "attempt": order.attempt,
            "node_rank": order.node_rank,
        }

    def hide(self, values: Iterable[str]) -> None:
        """Take these values out of all reports from now on."""
        self._scrubber = Scrubber(values)

    def scrubbed(self, record: R) -> R:
        """Return a record as it may be shown."""
        return secrets.scrubbed(record, self._scrubber)

    def send(self, kind: Callable[..., TaskReport], **facts: Any) -> None:
        """Report. What nobody waits for is dropped: somebody newer speaks for the task, or the job or worker was removed."""
        report = self.scrubbed(kind(**self._common, **facts))
        try:
            self._plane.report(report)
        except (StaleReport, JobNotFound, Forbidden, WorkerRemoved):  # forbidden: the plane knows of no such task of ours
            _log.debug("nobody waits for this report: %s", report)

    def line(self, text: str) -> None:
        """Write a line of what preparing says into the job's log."""
        task = {name: self._common[name] for name in ("job_id", "attempt", "node_rank")}
        words = self._scrubber.text(text)
        line = LogLine(**task, rank=None, stream="prepare", seq=self._lines, time=time.time(), text=words)
        self._lines += 1
        with suppress(LogFull, JobNotFound, Forbidden, WorkerRemoved):
            self._plane.append_lines(line.job_id, (line,))
