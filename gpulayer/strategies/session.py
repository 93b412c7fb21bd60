"""The calls of this process's script, in the order that it makes them, and the job that answers them."""

from __future__ import annotations

import functools
import multiprocessing
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from gpulayer import settings
from gpulayer.client.follow import say
from gpulayer.client.interrupts import Interrupts
from gpulayer.client.options import JobOptions
from gpulayer.errors import CallFromChild, CallFromThread, CallRefused, GPULayerError
from gpulayer.spec.calls import EarlierCall, FunctionName
from gpulayer.spec.job import Processes
from gpulayer.strategies import autoload, failure, fetching, hydra_runs, resume, script, stale, validation
from gpulayer.strategies.backstage import Backstage
from gpulayer.strategies.held import HeldJob, Settled, Shape
from gpulayer.strategies.hydra_runs import HydraRun
from gpulayer.strategies.names import Names
from gpulayer.strategies.resubmission import Again

_ATTACH = "gpulayer.attach(job_id, trainer, model) brings it home, here or in another process."


@dataclass
class CallRequest:
    """One of the four calls of a Trainer, as it reached the launcher."""

    function: FunctionName
    trainer: Any
    model: Any
    model_given: bool
    datamodule: Any
    arguments: dict[str, Any]
    ckpt_path: str | None
    ordinal: int
    num_nodes: int
    procs_per_worker: Processes
    options: JobOptions
    strategy: Any
    names: Names
    goes_on_from: str | None = None
    """A checkpoint of this very call, which was broken off: it counts whatever the script passes."""

    @property
    def shape(self) -> Shape:
        return Shape(self.num_nodes, self.procs_per_worker, self.options.of_job)


@dataclass(frozen=True)
class _Left:
    """A job that was left to itself, and the call that it makes."""

    job_id: str
    request: CallRequest


class Session:
    """One per process, and only in the process that made it.

    All calls of a script run in one job while it can hold; a job that ended is followed by another, whose first go carries
    what the calls before it left.
    """

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._busy = threading.Lock()
        self._busy_thread: int | None = None
        self._earlier: list[EarlierCall] = []
        self._held: HeldJob | None = None
        self._left: _Left | None = None
        self._run: HydraRun | None = None
        self._backstage: Backstage | None = None

    def expect(self, num_nodes: int, options: JobOptions) -> None:
        """Have local workers started in the background: a Trainer was made that will probably call."""
        if self.pid != os.getpid() or multiprocessing.parent_process() is not None:
            return
        try:
            script.current(autoload.STARTED_CWD)
        except GPULayerError:
            return
        self._stage().want(num_nodes, options)

    def call(self, request: CallRequest) -> Any:
        """Run one call as part of the script's job, apply what it left, and return or raise what it did."""
        self._refuse_elsewhere()
        with self._one_at_a_time():
            self._enter(hydra_runs.current())
            number = len(self._earlier)
            try:
                result, left = self._answer(number, request)
            except BaseException as error:
                if len(self._earlier) == number:
                    self._earlier.append(EarlierCall(call=number, status="failed", error=failure.in_words(error)))
                raise
            self._earlier.append(left)
            return result

    def _enter(self, run: HydraRun | None) -> None:
        """Begin to count anew where another run of hydra has begun: its job runs that alone."""
        if run == self._run:
            return
        if self._held is not None:
            self._held.farewell()
        self._run, self._held, self._left = run, None, None
        self._earlier.clear()

    def _answer(self, number: int, request: CallRequest) -> tuple[Any, EarlierCall]:
        if self._left is not None:
            sentence = f"{self._left.job_id} was left to itself (detach=True), and ends after its call."
            raise CallRefused(sentence, next_step=_ATTACH)
        request.options = self._stage().placed(request.options)
        validation.check_call(request.function, request.trainer.max_epochs)
        resume.check(request, self._stage().plane)
        stale.check(request.model, (each.outcome.sha256 for each in self._earlier if each.outcome is not None))
        if request.options.detach:
            self._leave(number, request)
            return None, EarlierCall(call=number, status="ok")
        again = Again(request, self._stage().plane())
        held, settled = self._settled(number, request, again.left)
        while settled.broken_off:
            again.prepare(held.job_id, settled.error)
            self._held = None
            held, settled = self._settled(number, request, again.left)
        request.strategy.job_id = held.job_id
        warn_of(settled, held.job_id)
        if settled.error is None:
            return settled.result, settled.earlier
        self._earlier.append(settled.earlier)
        self._held = None
        raise settled.error

    def _settled(self, number: int, request: CallRequest, tries_left: int) -> tuple[HeldJob, Settled]:
        """Have a job answer a call: the one that holds, or a fresh one."""
        held, settled = self._job_for(request), None
        while settled is None:
            with Interrupts() as interrupts:
                if held.meets(number, request, tuple(self._earlier), interrupts):
                    settled = held.settle(number, request, interrupts, tries_left=tries_left)
            if settled is None:
                # It ended while it held (idle limit, lost worker): another job answers the calls before from their record.
                self._held = None
                held = self._job_for(request)
        return held, settled

    def _leave(self, number: int, request: CallRequest) -> None:
        """Submit a job for this call alone, and let it go on by itself."""
        held = self._job_for(request)
        held.leave(number, request, tuple(self._earlier))
        request.strategy.job_id = held.job_id
        self._held, self._left = None, _Left(held.job_id, request)
        say(f"{held.job_id} goes on by itself: gpulayer.attach({held.job_id!r}, ...) brings it home.")

    def attach(self, job_id: str, trainer: Any, model: Any, given: dict[str, Any]) -> Any:
        """Bring a job home that was left; objects that this process left it with need not be given again."""
        from gpulayer.strategies.attaching import attach

        self._refuse_elsewhere()
        with self._one_at_a_time():
            left = self._left.request if self._left is not None and self._left.job_id == job_id else None
            if trainer is None and left is not None:
                trainer, model, given = left.trainer, left.model, left.arguments
            if trainer is None:
                raise CallRefused(f"{job_id} was not left by this process.", next_step=_ATTACH)
            stage = self._stage()
            settled = attach(stage.plane(), settings.read(), stage.homecoming, job_id, trainer, model, given)
            if left is not None:  # further calls go on from it
                self._left, self._earlier[-1] = None, settled.earlier.model_copy(update={"left": True})
            warn_of(settled, trainer.strategy.job_id)
            if settled.error is not None:
                raise settled.error
            return settled.result

    def fetch(self, trainer: Any) -> None:
        """Bring home what the calls of a Trainer left with their jobs."""
        self._refuse_elsewhere()
        with self._one_at_a_time():
            fetching.fetch(trainer)

    def _job_for(self, request: CallRequest) -> HeldJob:
        held = self._held
        if held is not None and held.shape == request.shape and not _has_grown(held) and held.may_hold():
            return held
        if held is not None:
            held.farewell()
        self._held = None
        self._held = self._stage().submit(request, script.current(autoload.STARTED_CWD))
        return self._held

    def _stage(self) -> Backstage:
        if self._backstage is None:
            self._backstage = Backstage(settings.read())
        return self._backstage

    def _refuse_elsewhere(self) -> None:
        if self.pid != os.getpid() or multiprocessing.parent_process() is not None:
            raise CallFromChild("This call was made in a child of the process that runs the script.")

    @contextmanager
    def _one_at_a_time(self) -> Iterator[None]:
        if not self._busy.acquire(blocking=False):
            if self._busy_thread == threading.get_ident():
                raise CallRefused("A call was made from inside of another one, at the caller.")
            raise CallFromThread("Another thread's call is running.")
        self._busy_thread = threading.get_ident()
        try:
            yield
        finally:
            self._busy_thread = None
            self._busy.release()

    def end(self) -> None:
        """Say farewell: the job keeps its results, and its workers end when they have shipped them."""
        if self.pid != os.getpid():
            return
        if self._held is not None:
            self._held.farewell()
            self._held.see_off()
            self._held = None
        if self._backstage is not None:
            self._backstage.close()
            self._backstage = None


def _has_grown(held: HeldJob) -> bool:
    """Whether the script of a job is a notebook's that has more cells by now."""
    return bool(held.text) and script.current(autoload.STARTED_CWD).text != held.text


def warn_of(settled: Settled, job_id: str) -> None:
    """Warn of what a call changed and couldn't bring back, and of what else the user should know."""
    if settled.unapplied:
        names = ", ".join(sorted(settled.unapplied))
        warnings.warn(f"gpulayer: {job_id} changed what can't be brought back here: {names}.", stacklevel=3)
    for note in settled.notes:
        warnings.warn(f"gpulayer: {note}.", stacklevel=3)


@functools.cache
def current() -> Session:
    """Return this process's session."""
    import atexit

    session = Session()
    atexit.register(_quietly(session.end))
    return session


def _quietly(end: Callable[[], None]) -> Callable[[], None]:
    def at_exit() -> None:
        try:
            end()
        except GPULayerError as error:
            say(str(error))

    return at_exit
