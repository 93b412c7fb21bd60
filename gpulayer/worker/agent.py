"""One worker: it registers, asks for orders, and has each order's task driven."""

from __future__ import annotations

import logging
import threading
import time

from gpulayer.errors import GPULayerError, WorkerNotFound
from gpulayer.spec.records import Order, Orders
from gpulayer.worker.task import Site, Task

_log = logging.getLogger(__name__)
_ASK_S = 10.0
_PAUSE_S = 0.5
LEASE_S = 90.0
"""A worker that was not heard for so long ends its tasks: the plane has given them up."""

_Key = tuple[str, int, int]


class Agent:
    """Follows a worker's orders until ``leave``; level-triggered, so an order heard twice does nothing twice."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._lock = threading.Lock()
        self._tasks: dict[_Key, Task] = {}
        self._ended: dict[_Key, Task] = {}
        self._leaving = threading.Event()
        self._idle = threading.Condition(self._lock)

    def register(self) -> None:
        self._site.plane.register(self._site.me)

    @property
    def busy(self) -> bool:
        """Whether a task has not ended yet."""
        with self._lock:
            return bool(self._tasks)

    def run(self) -> None:
        """Follow orders until told to leave."""
        seen, heard = 0, time.monotonic()
        while not self._leaving.is_set():
            try:
                orders = self._site.plane.orders(self._site.me.id, seen=seen, timeout_s=_ASK_S)
            except WorkerNotFound:
                self.register()
                continue
            except Exception as trouble:
                if self._leaving.is_set():
                    return
                self._on_silence(trouble, heard)
                self._leaving.wait(_PAUSE_S)
                continue
            if self._leaving.is_set():
                return
            seen, heard = orders.version, time.monotonic()
            self._follow(orders)

    def leave(self) -> None:
        """Take no further orders."""
        self._leaving.set()

    def abandon(self) -> None:
        """Kill all tasks at once."""
        for task in self._current():
            task.abandon()

    def await_idle(self, timeout_s: float | None = None) -> bool:
        """Wait until no task is left."""
        with self._idle:
            return self._idle.wait_for(lambda: not self._tasks, timeout_s)

    def _follow(self, orders: Orders) -> None:
        if orders.fenced:
            _log.warning("another worker took the identity %s", self._site.me.id)
            self.leave()
            self.abandon()
            return
        wanted = {_key(order): order for order in orders.orders}
        for key, order in wanted.items():
            self._take(key, order)
        with self._lock:
            self._ended = {key: task for key, task in self._ended.items() if key in wanted}
        for task in self._current():
            if _key(task.order) not in wanted:
                task.abandon()

    def _take(self, key: _Key, order: Order) -> None:
        with self._lock:
            running, ended = self._tasks.get(key), self._ended.get(key)
            if running is None and ended is None:
                self._tasks[key] = Task(order, self._site, self._on_end)
        if running is not None:
            running.update(order)
        elif ended is not None:
            ended.tell_end()  # the plane has not heard it; never run a task twice

    def _current(self) -> list[Task]:
        with self._lock:
            return list(self._tasks.values())

    def _on_end(self, task: Task) -> None:
        with self._idle:
            self._ended[_key(task.order)] = task
            self._tasks.pop(_key(task.order), None)
            self._idle.notify_all()

    def _on_silence(self, trouble: Exception, heard: float) -> None:
        expected = isinstance(trouble, GPULayerError)
        _log.warning("the plane did not answer: %s", trouble, exc_info=not expected)
        if time.monotonic() - heard > LEASE_S:
            self.abandon()


def _key(order: Order) -> _Key:
    return (order.job_id, order.attempt, order.node_rank)
