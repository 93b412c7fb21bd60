"""Wakes a waiting main thread from other threads and from signal handlers."""

from __future__ import annotations

import os
import select
from contextlib import suppress


class Bell:
    """A pipe: a handler that interrupts the waiting thread itself may ring it, which no lock allows."""

    def __init__(self) -> None:
        self._heard, self._rung = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def ring(self) -> None:
        with suppress(BlockingIOError):  # full: it rings
            os.write(self._rung, b"!")

    def wait(self, timeout_s: float | None) -> None:
        """Wait until it rang since the last time, or the time passed."""
        select.select([self._heard], [], [], timeout_s)
        with suppress(BlockingIOError):
            os.read(self._heard, 4096)
