"""Ctrl-C while a call is followed: counted, so that the follower decides when to act on it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any


class Interrupts:
    """Counts SIGINTs inside of its block instead of letting them break a transaction in the middle.

    The third one is a KeyboardInterrupt at once, as Python's own would have been. Outside of the main thread, or where
    SIGINT is ignored (``nohup``, ``&``), nothing is changed. ``on_interrupt`` is called in the signal's handler.
    """

    def __init__(self) -> None:
        self.count = 0
        self.on_interrupt: Callable[[], object] = lambda: None
        self._before: Any = None
        self._taken = False

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            before = signal.getsignal(signal.SIGINT)
            if callable(before):
                self._before, self._taken = before, True
                signal.signal(signal.SIGINT, self._on_interrupt)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._taken:
            signal.signal(signal.SIGINT, self._before)
            self._taken = False

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        self.on_interrupt()
        if self.count > 2:
            raise KeyboardInterrupt
