"""Waiting until the plane changed, by this process or another."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from gpulayer.control.store.sqlite import Watch

Found = TypeVar("Found")

QUICK_S = 0.002
SLOW_S = 0.02
ACTIVE_S = 1.0
BEAT_S = 0.1


class Changes:
    """Wakes waiters when anything was committed. One waiter at a time leads: it looks and runs the due ticks for all."""

    def __init__(self, watch: Watch, tick: Callable[[], None]) -> None:
        self._watch = watch
        self._tick = tick
        self._condition = threading.Condition()
        self._generation = 0
        self._leading = False
        self._ticking = threading.Lock()
        self._next_tick = 0.0
        self._active_at = 0.0
        self._closed = False

    def notify(self) -> None:
        """Tell the waiters of this process at once what the others see at their next look."""
        with self._condition:
            self._generation += 1
            self._active_at = time.monotonic()
            self._condition.notify_all()

    def wait(self, look: Callable[[], Found | None], timeout_s: float) -> Found | None:
        """Return what ``look`` finds, looking again after every change; None when the time is over or the plane closes."""
        until = time.monotonic() + timeout_s
        if timeout_s > 0:
            self._active_at = time.monotonic()
            self.tick_if_due()
        while True:
            seen = self._generation
            found = look()
            if found is not None or time.monotonic() >= until or self._closed:
                return found
            self._next(seen, until)

    def _next(self, seen: int, until: float) -> None:
        """Return after the generation moved on from ``seen``, or at the end of the time."""
        leads = False
        try:
            with self._condition:
                while self._generation == seen and self._leading and not self._closed:
                    left = until - time.monotonic()
                    if left <= 0:
                        return
                    self._condition.wait(left)
                if self._generation != seen or self._closed:
                    return
                leads = self._leading = True
            self._lead(seen, until)
        finally:
            if leads:
                with self._condition:
                    self._leading = False
                    self._condition.notify_all()  # the next one leads

    def _lead(self, seen: int, until: float) -> None:
        while True:
            self.tick_if_due()
            with self._condition:
                now = time.monotonic()
                if self._generation != seen or now >= until or self._closed:
                    return
                self._condition.wait(min(self._pause(now), until - now))
                if self._closed:
                    return
                if self._watch.changed():
                    self._generation += 1
                    self._active_at = time.monotonic()
                    self._condition.notify_all()

    def _pause(self, now: float) -> float:
        idle = now - self._active_at
        return QUICK_S if idle < ACTIVE_S else min(SLOW_S, QUICK_S * 2 * idle)

    def tick_if_due(self) -> None:
        """Run the due ticks, unless a thread of this process does or has done so just now."""
        if time.monotonic() < self._next_tick or not self._ticking.acquire(blocking=False):
            return
        try:
            self._tick()
        finally:
            self._next_tick = time.monotonic() + BEAT_S
            self._ticking.release()

    def close(self) -> None:
        """End all waits; they return what they last found."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()
            self._watch.close()
        with self._ticking:  # a tick that runs is finished first
            self._next_tick = float("inf")
