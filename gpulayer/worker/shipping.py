"""Sends the lines of a task's spool to the plane while the task runs, and all that is left at its end."""

from __future__ import annotations

import logging
import threading
from functools import partial

from gpulayer.logs.ship import Shipment
from gpulayer.logs.spool import SpoolReader
from gpulayer.plane import Plane
from gpulayer.spec.records import Order
from gpulayer.worker.layout import TaskFolders
from gpulayer.worker.reporter import persist

_log = logging.getLogger(__name__)
_LOOK_S = 0.05
_PATIENCE_S = 90.0


class Shipping:
    """A thread that follows the spool. ``finish`` ends it when everything written so far was taken."""

    def __init__(self, plane: Plane, order: Order, where: TaskFolders) -> None:
        self._plane = plane
        self._order = order
        self._where = where
        self._last = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="gpulayer-shipping", daemon=True)
        self._thread.start()

    def finish(self, timeout_s: float) -> bool:
        """Say whether all lines were taken in time; no process of the task may write any more."""
        self._last.set()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _follow(self) -> None:
        reader = SpoolReader(self._where.spool)
        try:
            shipment = persist(partial(self._begin, reader), _PATIENCE_S)
            while True:
                last = self._last.is_set()
                while batch := shipment.batch():
                    persist(partial(self._plane.append_lines, self._order.job_id, batch), _PATIENCE_S)
                    shipment.taken()
                if last:
                    return
                self._last.wait(_LOOK_S)
        except Exception:
            _log.exception("the lines of %s could not be sent; they stay in %s", self._order.job_id, self._where.spool)
        finally:
            reader.close()

    def _begin(self, reader: SpoolReader) -> Shipment:
        order = self._order
        marks = self._plane.log_marks(order.job_id, order.attempt, order.node_rank)
        return Shipment(reader, job_id=order.job_id, attempt=order.attempt, node_rank=order.node_rank, marks=marks)
