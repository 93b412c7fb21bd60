"""The rank's end of its socket to the worker."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from gpulayer.runtime.context import Context
from gpulayer.spec.calls import Fingerprint, OutcomeStatus, Progress
from gpulayer.spec.rank_messages import (
    TO_RANK,
    Announce,
    Arrive,
    Begin,
    End,
    GoAhead,
    Hello,
    Interrupted,
    Joins,
    Kept,
    Left,
    Progressed,
    Raised,
    Recorded,
    Recording,
)
from gpulayer.transport import unix

GONE = 1
"""Exit code of a rank whose worker is gone."""


class RankLink:
    """Speaks to the worker and hears from it; any thread may use it.

    A thread of its own reads. When the worker's end closes, the process leaves at once: nobody would hear its outcome.
    ``calls`` counts the calls this rank stood at; ``Left`` carries it.
    """

    def __init__(self, connection: unix.Connection) -> None:
        self.calls = 0
        self.has_left = False
        self._interrupted = False
        self._connection = connection
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._goes: deque[GoAhead] = deque()
        self._begins: dict[int, Begin] = {}
        self._recorded: set[int] = set()
        self._kept: set[int] = set()
        self._end: End | None = None
        self._serial = 0
        self._joins: set[bool] = set()
        threading.Thread(target=self._listen, name="gpulayer-link", daemon=True).start()

    def is_interrupted(self, within_s: float) -> bool:
        """Say whether the user ends the job: a signal may be here before the word for it, so wait for that a little."""
        with self._changed:
            return self._changed.wait_for(lambda: self._interrupted, within_s)

    @classmethod
    def open(cls, context: Context) -> RankLink:
        """Connect to the worker and say who this is."""
        if context.socket is None:
            raise ValueError("This job's worker listens at no socket.")
        connection = unix.connect(Path(context.socket))
        connection.send(Hello(attempt=context.attempt, rank=context.rank, pid=os.getpid()))
        return cls(connection)

    @property
    def ours(self) -> bool:
        """Whether this is the process that opened the link, not a fork of it."""
        return os.getpid() == self._pid

    def joins(self, *, met: bool = False) -> None:
        """Say, the first time, that this rank goes into the meeting of all ranks, or (``met``) that it came out of it."""
        if met not in self._joins and self.ours:
            self._joins.add(met)
            self._connection.send(Joins(met=met))

    def arrive(self, fingerprint: Fingerprint, state_digest: str = "") -> None:
        """Say that this rank stands at a call."""
        self.calls = max(self.calls, fingerprint.call + 1)
        self._connection.send(Arrive(fingerprint=fingerprint, state_digest=state_digest))

    def await_go(self) -> GoAhead | End:
        """Hold until the caller's go for the next call has come, or its end."""
        with self._changed:
            self._changed.wait_for(lambda: self._goes or self._end)
            return self._goes.popleft() if self._goes else self._ended()

    def await_begin(self, call: int) -> Begin | End:
        """Hold until every rank has arrived at ``call``, or no call will come any more."""
        with self._changed:
            self._changed.wait_for(lambda: call in self._begins or self._end)
            return self._begins.pop(call) if call in self._begins else self._ended()

    def record(
        self,
        call: int,
        status: OutcomeStatus,
        *,
        began: float | None = None,
        body: str | None = None,
        error: Raised | None = None,
    ) -> None:
        """Hand an outcome to the worker and hold until it is stored; bodies are files in the task's folder."""
        self._connection.send(Recording(call=call, status=status, began=began, body=body, error=error))
        self._await(lambda: call in self._recorded)

    def announce(
        self,
        path: str,
        files: Sequence[str] = (),
        *,
        epoch: int | None = None,
        step: int | None = None,
        monitor: str | None = None,
        score: float | None = None,
        mode: Literal["min", "max"] | None = None,
        removed: bool = False,
    ) -> int:
        """Tell of this rank's share of a checkpoint and return its serial; ``path`` and ``files`` are absolute."""
        with self._changed:
            self._serial += 1
            serial = self._serial
        self._connection.send(
            Announce(
                serial=serial,
                path=path,
                files=tuple(files),
                epoch=epoch,
                step=step,
                monitor=monitor,
                score=score,
                mode=mode,
                removed=removed,
            )
        )
        return serial

    def await_kept(self, serial: int) -> None:
        """Hold until the worker has its own copy of an announced save, so that its files may go."""
        self._await(lambda: serial in self._kept)

    def progress(self, progress: Progress) -> None:
        """Tell where this rank is."""
        self._connection.send(Progressed(progress=progress))

    def left(self, exit_code: int, *, error: Raised | None = None) -> None:
        """Say goodbye, once: the script ended on this rank. Never raises, since the process ends anyway."""
        if self.has_left or not self.ours:
            return
        self.has_left = True
        try:
            self._connection.send(Left(calls=self.calls, exit_code=exit_code, error=error))
        except OSError:
            return

    def _await(self, condition: Callable[[], bool]) -> None:
        with self._changed:
            self._changed.wait_for(condition)

    def _ended(self) -> End:
        assert self._end is not None
        return self._end

    def _listen(self) -> None:
        while (message := self._connection.receive(TO_RANK)) is not None:
            with self._changed:
                self._take(message)
                self._changed.notify_all()
        if not self.has_left:
            os._exit(GONE)

    def _take(self, message: GoAhead | Begin | End | Interrupted | Recorded | Kept) -> None:
        match message:
            case GoAhead():
                self._goes.append(message)
            case Begin():
                self._begins[message.call] = message
            case Recorded():
                self._recorded.add(message.call)
            case Kept():
                self._kept.add(message.serial)
            case End():
                self._end = message
            case Interrupted():
                self._interrupted = True
