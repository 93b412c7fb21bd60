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
from gpulayer.strategies import autoload, failure, resume, script, validation
from gpulayer.strategies.backstage import Backstage
from gpulayer.strategies.held import HeldJob, Shape
from gpulayer.strategies.names import Names


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

    @property
    def shape(self) -> Shape:
        return Shape(self.num_nodes, self.procs_per_worker, self.options)


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
            number = len(self._earlier)
            try:
                result, left = self._answer(number, request)
            except BaseException as error:
                if len(self._earlier) == number:
                    self._earlier.append(EarlierCall(call=number, status="failed", error=failure.in_words(error)))
                raise
            self._earlier.append(left)
            return result

    def _answer(self, number: int, request: CallRequest) -> tuple[Any, EarlierCall]:
        request.options = self._stage().placed(request.options)
        validation.check_call(request.function, request.trainer.max_epochs)
        resume.check(request, self._stage().plane)
        held, settled = self._job_for(request), None
        while settled is None:
            with Interrupts() as interrupts:
                if held.meets(number, request, tuple(self._earlier), interrupts):
                    settled = held.settle(number, request, interrupts)
            if settled is None:
                # It ended while it held (idle limit, lost worker): another job answers the calls before from their record.
                self._held = None
                held = self._job_for(request)
        request.strategy.job_id = held.job_id
        if settled.unapplied:
            warnings.warn(_unapplied(settled.unapplied, held.job_id), stacklevel=2)
        for note in settled.notes:
            warnings.warn(f"gpulayer: {note}.", stacklevel=2)
        if settled.error is None:
            return settled.result, settled.earlier
        self._earlier.append(settled.earlier)
        self._held = None
        raise settled.error

    def _job_for(self, request: CallRequest) -> HeldJob:
        held = self._held
        if held is not None and held.shape == request.shape and held.may_hold():
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


def _unapplied(names: list[str], job_id: str) -> str:
    return f"gpulayer: {job_id} changed what can't be brought back here: {', '.join(sorted(names))}."


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
