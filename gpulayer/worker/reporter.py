"""Tells the plane what happens to one task, again and again until it was heard."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from gpulayer.errors import GPULayerError, StaleReport
from gpulayer.plane import Plane
from gpulayer.spec.records import Order
from gpulayer.spec.reports import TaskReport

T = TypeVar("T")
_log = logging.getLogger(__name__)
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 2.0


class Reporter:
    """Reports about one task. ``patience_s`` is how long an unreachable plane is asked again."""

    def __init__(self, plane: Plane, worker_id: str, incarnation: str, order: Order, patience_s: float = 90.0) -> None:
        self._plane = plane
        self._common = {
            "worker_id": worker_id,
            "incarnation": incarnation,
            "job_id": order.job_id,
            "attempt": order.attempt,
            "node_rank": order.node_rank,
        }
        self._patience_s = patience_s

    def send(self, kind: Callable[..., TaskReport], **facts: Any) -> None:
        """Report; one that the plane calls stale is dropped, since somebody newer speaks for the task."""
        report: Any = kind(**self._common, **facts)
        try:
            persist(lambda: self._plane.report(report), self._patience_s)
        except StaleReport:
            _log.info("stale report dropped: %s", report)


def persist(ask: Callable[[], T], patience_s: float) -> T:
    """Ask until it works. Errors of our own tree are answers and come out; others are trouble on the way."""
    deadline = time.monotonic() + patience_s
    pause = _FIRST_PAUSE_S
    while True:
        try:
            return ask()
        except GPULayerError:
            raise
        except Exception:
            if time.monotonic() > deadline:
                raise
            _log.warning("the plane did not answer, asking again", exc_info=True)
        threading.Event().wait(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_S)
