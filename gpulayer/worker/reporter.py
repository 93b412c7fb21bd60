"""Tells the plane what happens to one task."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from gpulayer.errors import Forbidden, JobNotFound, StaleReport
from gpulayer.spec.records import Order
from gpulayer.spec.reports import TaskReport
from gpulayer.spec.workers import WorkerInfo
from gpulayer.worker.patience import PatientPlane

_log = logging.getLogger(__name__)


class Reporter:
    """Reports about one task of one worker."""

    def __init__(self, plane: PatientPlane, me: WorkerInfo, order: Order) -> None:
        self._plane = plane
        self._common = {
            "worker_id": me.id,
            "incarnation": me.incarnation,
            "job_id": order.job_id,
            "attempt": order.attempt,
            "node_rank": order.node_rank,
        }

    def send(self, kind: Callable[..., TaskReport], **facts: Any) -> None:
        """Report. What nobody waits for is dropped: somebody newer speaks for the task, or the job was removed."""
        report = kind(**self._common, **facts)
        try:
            self._plane.report(report)
        except (StaleReport, JobNotFound, Forbidden):  # the last: the plane knows of no such task of ours
            _log.info("nobody waits for this report: %s", report)
