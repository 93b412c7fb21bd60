"""Sends the lines of a task's spool to the plane while the task runs, and all that is left at its end."""

from __future__ import annotations

import logging
import threading

from gpulayer.errors import Forbidden, JobNotFound, LogFull, WorkerRemoved
from gpulayer.logs.ship import Shipment
from gpulayer.logs.spool import SpoolReader
from gpulayer.spec.records import Order
from gpulayer.worker.layout import TaskFolders
from gpulayer.worker.patience import PatientPlane

_log = logging.getLogger(__name__)
_LOOK_S = 0.05


class Shipping:
    """A thread that follows the spool; ``catch_up`` and ``finish`` wait until everything in it was taken."""

    def __init__(self, plane: PatientPlane, order: Order, where: TaskFolders) -> None:
        self._plane = plane
        self._order = order
        self._where = where
        self._changed = threading.Condition()
        self._asked = 0
        self._reached = 0
        self._last = False
        self._sent = False
        self._full = False
        self.count = 0
        """Lines that the plane took."""
        self._thread = threading.Thread(target=self._follow, name="gpulayer-shipping", daemon=True)
        self._thread.start()

    def finish(self, timeout_s: float) -> bool:
        """Say whether all lines were taken in time; no process of the task may write any more."""
        with self._changed:
            self._last = True
            self._changed.notify_all()
        self._thread.join(timeout_s)
        return self._sent

    def catch_up(self, timeout_s: float) -> bool:
        """Say whether all lines that are in the spool now were taken in time."""
        with self._changed:
            self._asked += 1
            wanted = self._asked
            self._changed.notify_all()
            return self._changed.wait_for(lambda: self._reached >= wanted, timeout_s)

    def _follow(self) -> None:
        reader = SpoolReader(self._where.spool)
        try:
            shipment = self._begin(reader)
            while True:
                asked, last = self._asked, self._last
                self._send(shipment)
                if last:
                    self._sent = True
                    return
                self._rest(asked)
        except (JobNotFound, Forbidden, WorkerRemoved):  # removed: nobody reads them any more
            self._sent = True
        except Exception:
            _log.exception("the lines of %s could not be sent; they stay in %s", self._order.job_id, self._where.spool)
        finally:
            reader.close()

    def _send(self, shipment: Shipment) -> None:
        """Send what is there; nothing any more once the plane keeps nothing of it."""
        try:
            while not self._full and (batch := shipment.batch()):
                self._plane.append_lines(self._order.job_id, batch)
                shipment.taken()
                self.count += len(batch)
        except LogFull:
            self._full = True

    def _rest(self, reached: int) -> None:
        with self._changed:
            self._reached = reached
            self._changed.notify_all()
            if self._asked == reached and not self._last:
                self._changed.wait(_LOOK_S)

    def _begin(self, reader: SpoolReader) -> Shipment:
        order = self._order
        marks = self._plane.log_marks(order.job_id, order.attempt, order.node_rank)
        return Shipment(reader, job_id=order.job_id, attempt=order.attempt, node_rank=order.node_rank, marks=marks)
