"""Shows how a job stands: a live line in a terminal, plain lines now and then in a pipe, or nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

from gpulayer.client.follow import Showing
from gpulayer.spec.calls import Progress
from gpulayer.spec.records import JobRecord
from gpulayer.spec.states import JobState, Phase

EVERY_S = 10.0
"""The least time between two plain lines of one epoch."""

WAITS_S = 1.5
"""How long a job may wait (for the one before it to end, say) before it is told why."""

_WORDS = {
    Phase.PREPARING: "prepares its workers",
    Phase.GATING: "waits for all workers",
    Phase.RUNNING: "starts",
    Phase.STOPPING: "stops",
    Phase.UPLOADING: "brings its files home",
}


def showing(enabled: bool, call: int, stream: TextIO | None = None) -> Showing:
    """Choose how to show call ``call``: as the stream can, or only why a job waits when the user wants no bar."""
    out = sys.stderr if stream is None else stream
    if enabled and out.isatty():
        return LiveLine(out, call)
    return PlainLines(out, call, enabled)


def in_words(progress: Progress) -> str:
    """Write progress as one line: ``fit epoch 2/5 batch 30/120 12.3 it/s eta 0:42 train_loss=0.123``."""
    parts = [progress.function or "call"]
    if progress.epoch is not None:
        most = progress.max_epochs if progress.max_epochs and progress.max_epochs > 0 else None
        epoch = progress.epoch + 1 if most is None else min(progress.epoch + 1, most)
        parts.append(f"epoch {epoch}" + (f"/{most}" if most else ""))
    if progress.batch is not None:
        parts.append(f"batch {progress.batch}" + (f"/{progress.batches}" if progress.batches else ""))
    if progress.rate:
        parts.append(f"{progress.rate:.3g} it/s")
    if progress.eta_s is not None:
        minutes, seconds = divmod(int(progress.eta_s), 60)
        parts.append(f"eta {minutes}:{seconds:02}")
    parts += [f"{name}={value:.4g}" for name, value in progress.metrics.items()]
    return " ".join(parts)


def standing(job: JobRecord, call: int) -> str:
    """Say how the job stands towards call ``call``."""
    if job.state is JobState.QUEUED:
        return f"{job.id} waits: {'; '.join(job.why)}" if job.why else f"{job.id} is queued"
    if job.progress is not None and job.progress.call == call and job.phase is Phase.RUNNING:
        return in_words(job.progress)
    return f"{job.id} {_WORDS[job.phase]}" if job.phase in _WORDS else ""


class PlainLines:
    """Prints a line when the job begins to wait, when an epoch begins, and every ten seconds."""

    def __init__(self, stream: TextIO, call: int, progress: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._call, self._progress, self._clock = stream, call, progress, clock
        self._said: object = None
        self._at = 0.0
        self._queued_at: float | None = None

    def show(self, job: JobRecord) -> None:
        key, now = self._key(job), self._clock()
        if key is None or (key == self._said and (job.state is JobState.QUEUED or now - self._at < EVERY_S)):
            return
        self._said, self._at = key, now
        print(f"gpulayer: {standing(job, self._call)}", file=self._stream, flush=True)

    def _key(self, job: JobRecord) -> object:
        """What makes a line worth printing: why it waits (once it does so for a while), or which epoch it is in."""
        if job.state is JobState.QUEUED:
            self._queued_at = self._clock() if self._queued_at is None else self._queued_at
            return (job.why or None) if self._clock() - self._queued_at >= WAITS_S else None
        told = job.progress
        if not self._progress or told is None or told.call != self._call or job.state is not JobState.RUNNING:
            return None
        return (told.function, told.epoch)

    def pause(self) -> None: ...

    def close(self) -> None: ...


class LiveLine:
    """One line that is rewritten in place."""

    def __init__(self, stream: TextIO, call: int) -> None:
        from rich.console import Console
        from rich.status import Status

        self._call = call
        self._status = Status("", console=Console(file=stream), spinner="dots")
        self._runs = False

    def show(self, job: JobRecord) -> None:
        text = standing(job, self._call)
        if not text:
            return
        self._status.update(_escaped(text))
        if not self._runs:
            self._status.start()
            self._runs = True

    def pause(self) -> None:
        if self._runs:
            self._status.stop()
            self._runs = False

    def close(self) -> None:
        self.pause()


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)
