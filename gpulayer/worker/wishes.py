"""What a task is wanted to do: its newest order, and the wish that it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable

from gpulayer.spec.records import Order, Stop


class Stopped(Exception):
    """The task was told to end before it had started."""


class Wishes:
    """Written by any thread, waited for by the task's own."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.stop: Stop | None = order.stop
        self._on_stop: Callable[[Stop], None] = lambda _: None
        self._lock = threading.Lock()
        self._woken = threading.Event()

    def take(self, order: Order) -> None:
        """Take the newest order."""
        self.order = order
        if order.stop is not None:
            self.end(order.stop)
        self.wake()

    def end(self, stop: Stop) -> None:
        """Wish that the task ends; the first reason stays, a later stop may only be harder."""
        with self._lock:
            old = self.stop
            harder = old is None or (stop.kill and not old.kill) or stop.grace_s < old.grace_s
            if old is None:
                self.stop = stop
            elif harder:
                self.stop = old.model_copy(update={"kill": stop.kill or old.kill, "grace_s": stop.grace_s})
            if harder:
                self._on_stop(stop)
        self.wake()

    def start(self, begin: Callable[[], None], on_stop: Callable[[Stop], None]) -> bool:
        """Begin, unless the task is to end; from then on each harder stop is passed on."""
        with self._lock:
            if self.stop is not None:
                return False
            begin()
            self._on_stop = on_stop
            return True

    @property
    def stopped(self) -> bool:
        return self.stop is not None

    def wake(self) -> None:
        self._woken.set()

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait for anything new."""
        self._woken.wait(timeout_s)
        self._woken.clear()

    def pause(self) -> None:
        """Wait for anything new; raises ``Stopped`` once the task is to end."""
        self.check()
        self.wait()
        self.check()

    def check(self) -> None:
        if self.stopped:
            raise Stopped
