"""Tells the worker now and then where rank 0's call is, from a thread that only reads: training is not slowed by it."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from gpulayer.spec.calls import Progress
from gpulayer.strategies import parts

EVERY_S = 0.5
_MOST_METRICS = 8


class Watch:
    """Reads a Trainer's counters; ``rate`` is of steps (or batches) since the look before."""

    def __init__(self, call: int, trainer: Any, now: float) -> None:
        self._call = call
        self._trainer = trainer
        self._last = (now, -1)
        self._rate: float | None = None
        self._before = _stored(trainer)

    def look(self, now: float, wall: float) -> Progress:
        """Return where the call is."""
        trainer = self._trainer
        function = "" if trainer.state.fn is None else str(trainer.state.fn.value)
        batch, batches = self._batch(function)
        step = int(trainer.global_step) if function == "fit" else batch
        self._measure(now, step)
        return Progress(
            call=self._call,
            at=wall,
            function=function,
            epoch=int(trainer.current_epoch) if function == "fit" else None,
            max_epochs=trainer.max_epochs if function == "fit" else None,
            step=step,
            batch=batch,
            batches=batches,
            rate=self._rate,
            eta_s=self._eta(function, step, batch, batches),
            metrics=metrics_of(trainer, self._before),
        )

    def _batch(self, function: str) -> tuple[int, int | None]:
        trainer = self._trainer
        if function == "fit":
            loop, most = trainer.fit_loop.epoch_loop, trainer.fit_loop.max_batches
        else:
            loop = {"validate": trainer.validate_loop, "test": trainer.test_loop, "predict": trainer.predict_loop}[function]
            most = getattr(loop, "max_batches", None)
        if isinstance(most, list):
            most = sum(most)
        known = isinstance(most, int | float) and math.isfinite(most)
        return int(loop.batch_progress.current.ready), int(most) if known else None

    def _measure(self, now: float, step: int) -> None:
        before, counted = self._last
        if step > counted >= 0 and now > before:
            self._rate = (step - counted) / (now - before)
        self._last = (now, step)

    def _eta(self, function: str, step: int, batch: int, batches: int | None) -> float | None:
        if not self._rate or batches is None:
            return None
        left = batches - batch
        if function == "fit":
            trainer = self._trainer
            if not trainer.max_epochs or trainer.max_epochs < 0:
                return None
            left += batches * max(0, trainer.max_epochs - trainer.current_epoch - 1)
        return max(0.0, left / self._rate)


def metrics_of(trainer: Any, before: dict[str, Any]) -> dict[str, float]:
    """Return the metrics that a progress bar would show, as far as reading them moves nothing between devices.

    What is still as it was ``before`` is another call's.
    """
    found: dict[str, float] = {}
    for name, value in _stored(trainer).items():
        if before.get(name) is value or (getattr(value, "device", None) is not None and value.device.type != "cpu"):
            continue
        with contextlib.suppress(TypeError, ValueError, RuntimeError):
            found[name] = float(value)
    return dict(list(found.items())[:_MOST_METRICS])


def _stored(trainer: Any) -> dict[str, Any]:
    bar, callback = parts.metrics(trainer)
    return {str(name): value for name, value in {**bar, **{n: v for n, v in callback.items() if n not in bar}}.items()}


@contextlib.contextmanager
def reporting(call: int, trainer: Any, tell: Callable[[Progress], None]) -> Iterator[None]:
    """Report while the block runs, and once more at its end."""
    done = threading.Event()
    watch = Watch(call, trainer, time.monotonic())

    def look() -> None:
        # A Trainer in the middle of a move may answer nonsense or raise; the next look is soon.
        with contextlib.suppress(Exception):
            tell(watch.look(time.monotonic(), time.time()))

    def run() -> None:
        look()
        while not done.wait(EVERY_S):
            look()

    thread = threading.Thread(target=run, name="gpulayer-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        look()
