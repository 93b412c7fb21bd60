"""One worker: it registers, asks for orders, and has each order's task driven."""

from __future__ import annotations

import logging
import math
import random
import threading
from collections.abc import Callable
from typing import Protocol

from gpulayer.errors import GPULayerError, Unauthorized, WorkerNotFound, WorkerRemoved
from gpulayer.spec.records import Order, Orders, Stop
from gpulayer.spec.states import Reason
from gpulayer.worker import leftovers, notes
from gpulayer.worker.lease import Lease, clock
from gpulayer.worker.patience import PatientPlane
from gpulayer.worker.site import Site
from gpulayer.worker.stopping import Ending
from gpulayer.worker.task import Task

_log = logging.getLogger(__name__)
_PAUSES_S = (0.5, 2.0)
_LOOK_BESIDE_S = 0.5
_REMOVED = "this worker was removed from the plane by an admin"

_Key = tuple[str, int, int]


class Undertaking(Protocol):
    """A task of this worker, or what is left of one."""

    @property
    def order(self) -> Order: ...
    @property
    def end(self) -> Ending | None: ...
    def update(self, order: Order) -> None: ...
    def renew(self) -> None: ...
    def stop(self, stop: Stop) -> None: ...
    def abandon(self, sentence: str = ...) -> None: ...
    def tell_end(self) -> None: ...


class Agent:
    """Follows a worker's orders until ``leave``; level-triggered, so an order heard twice does nothing twice.

    ``on_change`` is called, from any thread, when a task came or ended and when there is nothing more to follow:
    ``dismissed`` then holds why, and ``drained`` says that it was told to take no more and has nothing left. ``unanswered``
    says that the plane did not answer its last question.
    """

    def __init__(self, site: Site, on_change: Callable[[], None] = lambda: None) -> None:
        self._site = site
        self._plane = PatientPlane(site.plane)
        self._on_change = on_change
        self._lease = Lease(clock())
        self._answer_due = math.inf
        self._lock = threading.Lock()
        self._tasks: dict[_Key, Undertaking] = {}
        self._ended: dict[_Key, Undertaking] = {}
        self._leaving = threading.Event()
        self._idle = threading.Condition(self._lock)
        self.taken = 0
        self.drained = False
        self.unanswered = False
        self.dismissed = ""

    def register(self) -> None:
        asked = clock()
        self._site.plane.register(self._site.me)
        self._lease.renew(asked, self._lease.seconds)

    @property
    def busy(self) -> bool:
        """Whether a task has not ended yet."""
        with self._lock:
            return bool(self._tasks)

    def take_over(self) -> None:
        """Have what this worker left behind when it died brought to its end; to be called before ``run``."""
        leftovers.clear_former(self._site)
        with self._lock:
            for left in leftovers.of_worker(self._site, self._plane, self._on_end):
                self._tasks[_key(left.order)] = left

    def run(self) -> None:
        """Follow orders until told to leave."""
        if self._site.leased:
            threading.Thread(target=self._watch_lease, name="gpulayer-lease", daemon=True).start()
            threading.Thread(target=self._ask_beside, name="gpulayer-beside", daemon=True).start()
        seen, wait_s = 0, 0.0
        while not self._leaving.is_set():
            asked = clock()
            self._answer_due = asked + wait_s
            try:
                orders = self._ask(seen, wait_s)
            except Exception as trouble:
                if self._leaving.is_set():
                    return
                self.unanswered = True
                self._on_trouble(trouble)
                wait_s = 0.0  # renew the lease first: a plane that comes back may not stay for long
                continue
            if self._leaving.is_set():
                return
            self.unanswered = False
            self._plane.heard()
            self._renew_lease(asked, orders.lease_s)
            seen, wait_s = orders.version, self._lease.poll_s
            self._follow(orders)

    def _ask(self, seen: int, wait_s: float) -> Orders:
        try:
            return self._site.plane.orders(self._site.me.id, seen=seen, timeout_s=wait_s)
        except WorkerNotFound:  # a plane that lost its memory
            self.register()
            return self._site.plane.orders(self._site.me.id, seen=0)

    def leave(self) -> None:
        """Take no further orders."""
        self._leaving.set()

    def give_up(self) -> None:
        """Wait no more for a plane that is away: this process ends."""
        self._plane.give_up()

    def stop_tasks(self) -> None:
        """End all tasks, each with its grace."""
        for task in self._current():
            sentence = "Its worker was told to end."
            task.stop(Stop(reason=Reason.WORKER_LOST, sentence=sentence, grace_s=task.order.spec.grace_s))

    def abandon(self, sentence: str = "Its worker was told to end at once.") -> None:
        """Kill all tasks at once."""
        for task in self._current():
            task.abandon(sentence)

    def await_idle(self, timeout_s: float | None = None) -> bool:
        """Wait until no task is left."""
        with self._idle:
            return self._idle.wait_for(lambda: not self._tasks, timeout_s)

    # --- orders ------------------------------------------------------------------------------------------------------

    def _follow(self, orders: Orders) -> None:
        if orders.fenced:
            self._dismiss(_REMOVED if orders.removed else f"another process took the identity {self._site.me.id}")
            return
        wanted = {_key(order): order for order in orders.orders}
        for key, order in wanted.items():
            self._take(key, order)
        with self._lock:
            self._ended = {key: task for key, task in self._ended.items() if key in wanted}
        for task in self._current():
            if _key(task.order) not in wanted:
                task.abandon()
        self.drained = orders.draining and not wanted
        if self.drained:
            self._on_change()

    def _take(self, key: _Key, order: Order) -> None:
        with self._lock:
            running, ended = self._tasks.get(key), self._ended.get(key)
            fresh = running is None and ended is None
            if fresh:
                self._tasks[key] = self._begin(order)
                self.taken += 1
        if fresh:
            _log.info("takes %s", notes.named(order))
            self._on_change()
        elif running is not None:
            running.update(order)
        elif ended is not None:
            ended.tell_end()  # the plane has not heard it; never run a task twice

    def _begin(self, order: Order) -> Undertaking:
        if order.launch:  # we never said that it is ready: an earlier incarnation did, and started it
            return leftovers.unknown(order, self._site, self._plane, self._on_end)
        return Task(order, self._site, self._plane, self._on_end, self._lease if self._site.leased else None)

    def _current(self) -> list[Undertaking]:
        with self._lock:
            return list(self._tasks.values())

    def _on_end(self, task: Undertaking) -> None:
        _log.info("%s ended: %s", notes.named(task.order), task.end or "without a word")
        with self._idle:
            self._ended[_key(task.order)] = task
            self._tasks.pop(_key(task.order), None)
            self._idle.notify_all()
        self._on_change()

    def _dismiss(self, why: str) -> None:
        _log.warning("%s; it ends its tasks and leaves", why)
        self.dismissed = why
        self.leave()
        self.abandon(f"{why[0].upper()}{why[1:]}.")
        self._on_change()

    # --- silence -----------------------------------------------------------------------------------------------------

    def _on_trouble(self, trouble: Exception) -> None:
        if isinstance(trouble, WorkerRemoved):
            self._dismiss(_REMOVED)
            return
        if isinstance(trouble, Unauthorized):
            self._dismiss(f"the plane does not know this worker's key: {trouble.sentence}")
            return
        self._plane.missed(trouble)
        asked = trouble.facts.get("retry_after_s") if isinstance(trouble, GPULayerError) else None
        # Many workers lose a plane at one moment; they do not all come back at one.
        self._leaving.wait(max(random.uniform(*_PAUSES_S), float(asked or 0.0)))

    def _watch_lease(self) -> None:
        """A question may hang for longer than the lease lasts."""
        while not self._leaving.wait(max(0.05, min(1.0, self._lease.until - clock()))):
            self._check_lease()

    def _ask_beside(self) -> None:
        """Renew the lease by a second question, on a connection of its own, while the answer to one is overdue.

        What a link swallowed is sent again ever more rarely (RFC 6298, section 5.5), so that one that was cut for long keeps
        the first answer for about as long again.
        """
        while not self._leaving.wait(_LOOK_BESIDE_S):
            asked = clock()
            if not self._lease.overdue(self._answer_due, asked):
                continue
            try:
                orders = self._site.plane.orders(self._site.me.id)
            except Exception as trouble:  # whoever asked first will hear it too, and acts on it
                _log.debug("nor does a second question reach the plane: %s", trouble)
            else:
                self._answer_due = asked
                if not orders.fenced:
                    self._renew_lease(asked, orders.lease_s)

    def _renew_lease(self, asked: float, seconds: float) -> None:
        self._check_lease()  # of the time until this answer came: it may have come too late
        self._lease.renew(asked, seconds)
        for task in self._current():
            task.renew()

    def _check_lease(self) -> None:
        if self._site.leased and self._lease.passed(clock()):
            self.abandon(self._lease.broken)


def _key(order: Order) -> _Key:
    return (order.job_id, order.attempt, order.node_rank)
