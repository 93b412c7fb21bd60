"""The guard's ends of the pipes that a task's processes write into (standard library only)."""

from __future__ import annotations

import fcntl
import os
import selectors
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_CHUNK = 256 * 1024
_MOST_CHUNKS = 64
"""Far more than a pipe holds: a writer that never pauses must not keep a flush from ending."""
_F_SETPIPE_SZ = 1031
_ROOM = 1024 * 1024

Sink = Callable[[bytes], None]


class _Pipe(NamedTuple):
    reading: int
    writing: int
    sink: Sink


class Pipes:
    """Reads every pipe as it fills and hands the bytes on, in order."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._open: list[_Pipe] = []

    def fifo(self, path: Path, sink: Sink) -> None:
        """Make a named pipe that other processes open by its path.

        Our own writing end keeps it from ending when one writer leaves before the next comes.
        """
        with suppress(FileExistsError):
            os.mkfifo(path, 0o600)
        reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._add(_Pipe(reading, os.open(path, os.O_WRONLY | os.O_CLOEXEC), sink))

    def pipe(self, sink: Sink) -> int:
        """Make an unnamed pipe and return the end to write into."""
        reading, writing = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(reading, False)
        self._add(_Pipe(reading, writing, sink))
        return writing

    def flush(self) -> None:
        """Read what has been written so far."""
        for pipe in self._open:
            for _ in range(_MOST_CHUNKS):
                if not self._read(pipe):
                    break

    def drain(self) -> None:
        """Read what is left and close; to be called when no process writes any more."""
        for pipe in self._open:
            os.close(pipe.writing)
            while self._read(pipe):
                pass
            self._selector.unregister(pipe.reading)
            os.close(pipe.reading)
        self._open.clear()

    def _add(self, pipe: _Pipe) -> None:
        with suppress(OSError):  # more room makes a burst of lines cheaper for the job; the usual 64 KB do as well
            fcntl.fcntl(pipe.reading, _F_SETPIPE_SZ, _ROOM)
        self._open.append(pipe)
        self._selector.register(pipe.reading, selectors.EVENT_READ, lambda: self._read(pipe))

    def _read(self, pipe: _Pipe) -> bool:
        try:
            data = os.read(pipe.reading, _CHUNK)
        except BlockingIOError:
            return False
        if data:
            pipe.sink(data)
        return bool(data)
