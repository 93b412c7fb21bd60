"""A rank's walk through the calls of its script: it holds in each until the caller's go for the next."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from gpulayer.errors import CallFromChild, CallFromThread
from gpulayer.runtime import main
from gpulayer.runtime.context import Context
from gpulayer.runtime.report import RankLink
from gpulayer.spec.calls import EarlierCall, Fingerprint, Go
from gpulayer.spec.rank_messages import Begin, End, GoAhead
from gpulayer.strategies import call_settings, random_state
from gpulayer.strategies.call_settings import CallSettings
from gpulayer.strategies.paths import PathMap, between


@dataclass(frozen=True)
class Ahead:
    """A go of the caller's, with its files at hand."""

    go: Go
    settings: CallSettings
    earlier: tuple[str | None, ...]
    earlier_errors: tuple[str | None, ...]
    checkpoint: str | None = None
    came: float = 0.0
    """When it came to this machine: after all ranks had recorded the call before, and before any of them went on."""

    def answer(self, number: int) -> tuple[EarlierCall, Path | None, Path | None]:
        """Return the record of an earlier call: what is known of it, its outcome's file and its error's."""
        record = next(call for call in self.go.earlier if call.call == number)
        place = self.go.earlier.index(record)
        body, error = self.earlier[place], self.earlier_errors[place]
        return record, Path(body) if body else None, Path(error) if error else None


class Walk:
    """Where this process stands among the calls of its script; there is one per rank, tied to the pid that made it."""

    def __init__(self, link: RankLink, context: Context) -> None:
        assert context.calls is not None
        self.link = link
        self.context = context
        self.number = 0
        self.paths: PathMap = between(context.calls.root, context.calls.cwd, str(context.work))
        self._pid = os.getpid()
        self._thread: int | None = None
        self._ahead: Ahead | None = None

    @property
    def inside(self) -> bool:
        """Whether a call is made from inside another one, which it is then part of; refuses those of others."""
        if os.getpid() != self._pid:
            raise CallFromChild("This call was made in a child of the process that runs the script.")
        if self._thread is not None and self._thread != threading.get_ident():
            raise CallFromThread("Another thread's call is running.")
        return self._thread is not None

    @property
    def computing(self) -> bool:
        return self._thread is not None

    @contextmanager
    def call(self) -> Iterator[int]:
        """Stand in the next call."""
        self._thread = threading.get_ident()
        try:
            yield self.number
        finally:
            self._thread = None
            self.number += 1

    def go(self) -> Ahead:
        """Return the go that this rank walks towards, waiting for the first one."""
        if self._ahead is None:
            self.hold()
        assert self._ahead is not None
        return self._ahead

    def hold(self) -> None:
        """Wait for the go for the next call, and leave the script where it stands when none will come."""
        message = self.link.await_go()
        if isinstance(message, End):
            self.leave(0)
        leaving = self._ahead is not None
        self._ahead = self._read(message)
        if leaving:
            self.leave_call(self._ahead)

    def leave_call(self, ahead: Ahead) -> None:
        """Go on with the random states that the call before the go's left at the caller: rank 0's."""
        if ahead.settings.random is not None:
            random_state.take(ahead.settings.random)

    def _read(self, message: GoAhead) -> Ahead:
        settings = CallSettings() if message.settings is None else call_settings.unpack(Path(message.settings))
        self.paths = between_with(self.paths, settings)
        came = 0.0 if message.settings is None else os.stat(message.settings).st_mtime
        go = Go.model_validate_json(message.go)
        return Ahead(go, settings, message.earlier, message.earlier_errors, message.checkpoint, came)

    def begin(self, fingerprint: Fingerprint, state_digest: str) -> Begin:
        """Say that this rank stands at a call, and wait until all do."""
        self.link.arrive(fingerprint, state_digest)
        message = self.link.await_begin(fingerprint.call)
        if isinstance(message, End):
            self.leave(0)
        return message

    def leave(self, exit_code: int) -> NoReturn:
        """End the process from inside the call: the code after it is the caller's to run."""
        main.leave(exit_code)


def between_with(paths: PathMap, settings: CallSettings) -> PathMap:
    """Know the folders that a call writes to, wherever they are at the caller."""
    folders = tuple(dict.fromkeys((*paths.outside, *settings.folders)))
    return PathMap(paths.root, paths.cwd, paths.work, paths.aliases, folders)


@contextmanager
def marked(call: int) -> Iterator[None]:
    """Mark what this process prints as printed inside of a call."""
    _mark(str(call))
    try:
        yield
    finally:
        _mark("-")


def _mark(word: str) -> None:
    line = f"\x1egpulayer call={word}\n".encode()
    for stream, descriptor in ((sys.stdout, 1), (sys.stderr, 2)):
        try:
            stream.flush()
            os.write(descriptor, line)
        except (OSError, ValueError, AttributeError):  # a stream that the script closed or replaced
            continue
