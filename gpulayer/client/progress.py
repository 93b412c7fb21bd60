"""Shows how a job stands: a live line in a terminal or a notebook, plain lines now and then in a pipe, or nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

from gpulayer.client import terminals
from gpulayer.client.follow import Showing
from gpulayer.logs.harmless import harmless
from gpulayer.spec.calls import Progress
from gpulayer.spec.records import JobRecord
from gpulayer.spec.states import JobState, Phase

EVERY_S = 10.0
"""The least time between two plain lines of one epoch."""

WAITS_S = 1.5
"""How long a job may wait (for the one before it to end, say) before it is told why."""

_WORDS = {
    Phase.PREPARING: "is being prepared",
    Phase.GATING: "is meeting",
    Phase.RUNNING: "starts",
    Phase.STOPPING: "stops",
    Phase.UPLOADING: "stores its files",
}
_MOST_NAMES = 4


def showing(enabled: bool, call: int, stream: TextIO | None = None) -> Showing:
    """Choose how to show call ``call``: as the stream can, or only why a job waits when the user wants no bar."""
    out = sys.stderr if stream is None else stream
    if enabled and out.isatty() and terminals.is_ours_alone(out):
        return LiveLine(out, call)
    if enabled and stream is None and (display := notebook_display()) is not None:
        return NotebookLine(display, call)
    return PlainLines(out, call, enabled)


def notebook_display() -> Callable[..., Any] | None:
    """Return IPython's ``display`` where cells of a notebook run, None anywhere else; IPython is never imported for it."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return None if getattr(shell, "kernel", None) is None or ipython is None else ipython.display.display


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
        return f"{job.id} {in_words(job.progress)}"
    return f"{job.id} {_WORDS[job.phase]}{_on_workers(job)}" if job.phase in _WORDS else ""


def _on_workers(job: JobRecord) -> str:
    """Name the workers that are at it still."""
    names = [task.worker_name or task.worker_id for task in job.tasks if not task.state.terminal]
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f" on {', '.join(names[:_MOST_NAMES])}{more}" if names else ""


class PlainLines:
    """Prints a line when a wait or a phase has lasted, when an epoch begins, and every ten seconds of one."""

    def __init__(self, stream: TextIO, call: int, progress: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._call, self._progress, self._clock = stream, call, progress, clock
        self._said: object = None
        self._at = 0.0
        self._told: Progress | None = None
        self._stood: object = None
        self._since = 0.0

    def show(self, job: JobRecord) -> None:
        key, now = self._key(job), self._clock()
        if key is None or (key == self._said and not self._goes_on(job, now)):
            return
        self._said, self._at, self._told = key, now, job.progress
        print(f"gpulayer: {harmless(standing(job, self._call))}", file=self._stream, flush=True)

    def _goes_on(self, job: JobRecord, now: float) -> bool:
        """Say whether the same epoch is worth another line."""
        return self._trains(job) and job.progress != self._told and now - self._at >= EVERY_S

    def _key(self, job: JobRecord) -> object:
        """What makes a line worth printing: why it waits or its phase (once that lasts), or which epoch it is in."""
        if self._trains(job):
            told = job.progress
            return (told.function, told.epoch) if self._progress and told is not None else None
        if (job.state, job.phase) != self._stood:
            self._stood, self._since = (job.state, job.phase), self._clock()
        if self._clock() - self._since < WAITS_S:
            return None
        if job.state is JobState.QUEUED:
            return job.why or None
        return job.phase if self._progress and job.phase in _WORDS else None

    def _trains(self, job: JobRecord) -> bool:
        return job.phase is Phase.RUNNING and job.progress is not None and job.progress.call == self._call

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
        self._status.update(_escaped(harmless(text)))
        if not self._runs:
            self._status.start()
            self._runs = True

    def pause(self) -> None:
        if self._runs:
            self._status.stop()
            self._runs = False

    def close(self) -> None:
        self.pause()


class NotebookLine:
    """One line of a cell's output, changed in place; how far the call came stays there when it has ended."""

    def __init__(self, display: Callable[..., Any], call: int) -> None:
        self._display, self._call = display, call
        self._handle: Any = None
        self._text = ""
        self._came = ""

    def show(self, job: JobRecord) -> None:
        text = harmless(standing(job, self._call))
        if not text:
            return
        if job.progress is not None and job.progress.call == self._call and job.phase is Phase.RUNNING:
            self._came = text
        self._write(text)

    def _write(self, text: str) -> None:
        if text == self._text:
            return
        self._text, output = text, {"text/plain": text}
        if self._handle is None:
            self._handle = self._display(output, raw=True, display_id=True)
        else:
            self._handle.update(output, raw=True)

    def pause(self) -> None: ...

    def close(self) -> None:
        if self._handle is not None:
            self._write(self._came)


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)
