"""One job of a script, as its caller sees it: it is told to go, followed, and asked for what a call left."""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from gpulayer.artifacts import landing
from gpulayer.client import progress, raising
from gpulayer.client.choice import Choice
from gpulayer.client.follow import Follower, Showing, say
from gpulayer.client.homecoming import Brought, Homecoming
from gpulayer.client.interrupts import Interrupts
from gpulayer.client.local_workers import LocalWorkers
from gpulayer.client.options import JobOptions
from gpulayer.plane import Plane
from gpulayer.spec.calls import CallView, EarlierCall, ErrorRecord, Go, Outcome
from gpulayer.spec.files import Artifact, Blob
from gpulayer.spec.job import Processes
from gpulayer.spec.records import JobRecord
from gpulayer.spec.states import JobState, Reason
from gpulayer.strategies import call_times, failure, going, left_behind, outcome, resume, stale
from gpulayer.strategies.fetching import Fetching, Left, module_part
from gpulayer.strategies.job_spec import PackedSource, Source
from gpulayer.strategies.stale import Owed

if TYPE_CHECKING:
    from gpulayer.strategies.session import CallRequest

SEE_OFF_S = 15.0
"""How long a script's end waits for its job to ship what is left."""

_GONE_WHILE_HOLDING = (Reason.IDLE_LIMIT, Reason.WORKER_LOST, Reason.CALLER_ENDED, Reason.DONE, Reason.SIGNALLED, Reason.EXITED)


@dataclass(frozen=True)
class Shape:
    """What a Trainer must share with a held job to be answered by it."""

    num_nodes: int
    procs_per_worker: Processes
    options: JobOptions


@dataclass
class Settled:
    """A call that has ended, as far as the caller is concerned."""

    earlier: EarlierCall
    result: Any = None
    error: BaseException | None = None
    unapplied: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    broken_off: bool = False
    """Whether nothing was applied, as the call is to be submitted again."""


@dataclass(frozen=True)
class Taking:
    """What is taken over of a call."""

    fetching: Fetching
    files_stay: bool


class HeldJob:
    """A submitted job that walks the script's calls in lockstep with its caller."""

    def __init__(
        self,
        plane: Plane,
        job: JobRecord,
        shape: Shape,
        source: Source,
        packed: PackedSource,
        homecoming: Homecoming,
        workers: LocalWorkers | None,
        resumed: Path,
        text: str = "",
    ) -> None:
        self.plane = plane
        self.job_id = job.id
        self.shape = shape
        self._source = source
        self._packed = packed
        self._homecoming = homecoming
        self._workers = workers
        self._resumed = resumed
        self.text = text
        self._follower = Follower(plane, job.id, show_ranks=shape.options.show_ranks)
        self._beside: dict[str, str] = {}
        self._stayed: set[Blob] = set()
        self._answered = False
        self._next = 0
        self._last = job
        self._sent_state = -1
        self._showing: Showing | None = None
        self._notes: list[str] = []

    def may_hold(self) -> bool:
        """Say whether the job can take another call, as far as is known now."""
        self._last = self.plane.job(self.job_id)
        return not self._last.state.terminal and self._last.stop is None

    def meets(self, number: int, request: CallRequest, earlier: tuple[EarlierCall, ...], interrupts: Interrupts) -> bool:
        """Send the go for call ``number`` and follow until it begins; False when the job had ended while it held."""
        # What it has no record of itself: calls before it was submitted, and those refused at the caller since.
        unknown = earlier[self._next :]
        self.plane.go(self.job_id, self._go(number, request, unknown))
        self._showing = progress.showing(_shows_progress(request), number)
        job = self._follow(number, request, interrupts, lambda job: _view(job, number).begun)
        gone = job.state.terminal and not _view(job, number).begun and job.reason in _GONE_WHILE_HOLDING
        if gone and self._answered and not interrupts.count:
            self._drop_copies(number)
            return False
        if job.attempt:
            self._tell_processes(job.procs_per_worker, request)
        return True

    def _go(self, number: int, request: CallRequest, earlier: tuple[EarlierCall, ...]) -> Go:
        paths = self._homecoming.named
        found = resume.resolve(request, self.plane, self._copies(number), self._last, paths)
        return going.go(number, request, self._source, self.plane, earlier, found, paths)

    def leave(self, number: int, request: CallRequest, earlier: tuple[EarlierCall, ...]) -> None:
        """Send the go for the last call, with all that it may need of the caller, and let the job go on by itself."""
        go = self._go(number, request, earlier)
        if request.model is not None and not stale.is_stale(request.model):
            go = go.model_copy(update={"state": self.plane.put_blob(going.state(request.model))})
        self.plane.go(self.job_id, go)
        self.plane.farewell(self.job_id)

    def _tell_processes(self, processes: int, request: CallRequest) -> None:
        """Say how many processes ``auto`` has become."""
        if self.shape.procs_per_worker == "auto" and not self._answered:
            say(f"{self.job_id} has {processes} {'process' if processes == 1 else 'processes'} on each worker.")
        request.strategy.placed(processes)

    def settle(self, number: int, request: CallRequest, interrupts: Interrupts, *, tries_left: int = 0) -> Settled:
        """Follow call ``number`` to its end, bring its files home, and apply its outcome to the caller's objects.

        One that was broken off from outside is applied only when no ``tries_left`` of it.
        """
        job = self._follow(number, request, interrupts, lambda job: _view(job, number).settled)
        view = _view(job, number)
        self._drop_copies(number)
        record, told = (None, _outcome_of(view, 0)) if view.settled else failure.culprit(job, view)
        fetching = Fetching(self.plane, self.job_id, request.options, None if told is None else told.body, request.model)
        brought = self._bring(job, lambda changed: fetching.choose(changed, self._source.place))
        if fetching.words is not None and not {each.blob for each in brought.left} <= self._stayed:
            say(fetching.words)
        self._stayed = {each.blob for each in brought.left}
        take = Taking(fetching, bool(brought.left))
        if view.settled:
            return self._succeeded(number, request, take)
        return self._failed(number, request, job, record, take, interrupts, tries_left)

    def _bring(self, job: JobRecord, choice: Callable[[Iterable[Artifact]], Choice | None]) -> Brought:
        brought = self._homecoming.bring(
            self.job_id,
            self._packed.hash_of,
            call_times.outside(job),
            lambda count: say(f"bringing home {count} files."),
            choice,
        )
        self._tell(brought)
        return brought

    def bring_rest(self) -> dict[str, str]:
        """Bring the files home that stayed with the job; the paths of checkpoints by the URLs that named them meanwhile."""
        self._bring(self.plane.job(self.job_id), lambda _: None)
        home = self._homecoming
        return {url: self._text(path) for url, path in home.named.items() if path not in home.away}

    def _copies(self, number: int) -> Path:
        """The folder for what a call loads from other jobs."""
        return self._resumed / f"{self.job_id}.{number}"

    def _drop_copies(self, number: int) -> None:
        shutil.rmtree(self._copies(number), ignore_errors=True)

    def _follow(self, number: int, request: CallRequest, interrupts: Interrupts, reached: Any) -> JobRecord:
        showing = self._showing or progress.showing(_shows_progress(request), number)

        def each(job: JobRecord) -> None:
            if _view(job, number).needs_state and self._sent_state != number:
                self._sent_state = number
                say("rank 0's model differs from the caller's: the caller's is sent.", showing)
                state = self.plane.put_blob(going.state(request.model))
                self.plane.send_state(self.job_id, number, state)
            if self._workers is not None and job.state is JobState.QUEUED:
                self._workers.check()

        job = self._follower.until(
            lambda job: job.state.terminal or reached(job), showing=showing, interrupts=interrupts, each=each
        )
        if job.state.terminal:
            self._follower.look(0.0, showing)
            showing.close()
        self._last = job
        return job

    def _succeeded(self, number: int, request: CallRequest, take: Taking) -> Settled:
        self._answered, self._next = True, number + 1
        left = EarlierCall(call=number, status="ok", outcome=take.fetching.body)
        result, unapplied = self._apply(take, request)
        return Settled(left, result=result, unapplied=unapplied, notes=self._notes)

    def _failed(
        self,
        number: int,
        request: CallRequest,
        job: JobRecord,
        record: ErrorRecord | None,
        take: Taking,
        interrupts: Interrupts,
        tries_left: int,
    ) -> Settled:
        if tries_left and not interrupts.count and failure.may_pass(job, record):
            left = EarlierCall(call=number, status="failed")
            return Settled(left, error=self._error(job, record, interrupts), broken_off=True)
        unapplied = self._apply(take, request)[1]
        error = self._error(job, record, interrupts)
        status = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
        left = EarlierCall(call=number, status=status, outcome=take.fetching.body, error=record or failure.in_words(error))
        return Settled(left, error=error, unapplied=unapplied)

    def _error(self, job: JobRecord, record: ErrorRecord | None, interrupts: Interrupts) -> BaseException:
        if interrupts.count:
            return KeyboardInterrupt()
        if record is None or job.reason is Reason.CANCELLED_BY_USER:
            return raising.job_error(job)
        with TemporaryDirectory(prefix="gpulayer-") as folder:
            body = self._fetch(record.body, Path(folder)) if record.body is not None else None
            error = outcome.rebuild_error(record, body)
        left_behind.tell(error, job.spec, self._source, self._packed, os.environ)
        return error

    def _apply(self, take: Taking, request: CallRequest) -> tuple[Any, list[str]]:
        body = take.fetching.body
        left = request.strategy.left = request.strategy.left or {}
        if take.files_stay:
            left.setdefault(self.job_id, Left(self.bring_rest))
        if body is None:
            return None, []
        before, strategy = request.strategy.spelled, request.strategy
        applied = going.apply(take.fetching.outcome(), request, self._text, lambda text: before.get(text, text), self._arrange)
        strategy.spelled = {**self._homecoming.away, **self._beside}
        if applied.fill is not None:
            fill = functools.partial(going.fill, applied.fill, request, self.job_id)
            stale.leave(request.model, self.job_id, Owed(body.sha256, lambda: module_part(self.plane, body), fill))
            left.setdefault(self.job_id, Left(self.bring_rest)).models.append(request.model)
            if request.function == "fit":
                going.owe_stale(request, self.job_id)
        return applied.returned, list(applied.lost)

    def _text(self, text: str) -> str:
        """Translate a path of the caller's to what its file is called here now."""
        return self._beside.get(text) or self._homecoming.away.get(text, text)

    def _arrange(self, left: dict[str, Any]) -> None:
        """Bring home what no list of files tells, and keep what the user should know."""
        self._notes = left.get("notes") or []
        self._homecoming.remove(self.job_id, left.get("gone") or [])
        self._homecoming.make_folders(left.get("folders") or [])

    def _fetch(self, blob: Blob, folder: Path) -> Path:
        target = landing.below(folder, blob.sha256)
        self.plane.fetch_blob(blob.sha256, target)
        return target

    def _tell(self, brought: Brought) -> None:
        # The job's file is the one that its callbacks mean, whatever lies at the path where it was written.
        self._beside |= {str(kept): str(beside) for kept, beside in brought.beside}
        for kept, beside in brought.beside:
            say(f"{kept} was changed here meanwhile and is kept; the job's is {beside}.")
        if brought.doubles:
            say(
                f"{len(brought.doubles)} files of other nodes differ from node 0's; they are below {brought.doubles[0].parent}."
            )

    def farewell(self) -> None:
        """Say that no further call will come."""
        if self._follower.left:
            return
        if not self.plane.job(self.job_id).state.terminal:
            self.plane.farewell(self.job_id)

    def see_off(self) -> None:
        """Wait for the job's end (for a while), showing the lines that are still to come."""
        import time

        if self._follower.left:
            return
        deadline, quiet = time.monotonic() + SEE_OFF_S, progress.showing(False, -1)
        while not self._follower.look(0.1, quiet).state.terminal and time.monotonic() < deadline:
            if self._workers is not None and not self._workers.alive:
                break


def _view(job: JobRecord, number: int) -> CallView:
    return next((view for view in job.calls if view.call == number), CallView(call=number))


def _outcome_of(view: CallView, rank: int) -> Outcome:
    return next(outcome for outcome in view.outcomes if outcome.rank == rank)


def _shows_progress(request: CallRequest) -> bool:
    return request.trainer.progress_bar_callback is not None
