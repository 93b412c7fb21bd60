"""The spool: the lines of a task in a file, written by its guard and read by its worker.

Standard library only: the guard imports it. A frame holds the lines of one read, so that writing costs no work per line.
"""

from __future__ import annotations

import os
import struct
import threading
import zlib
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from gpulayer.logs.scrub import Scrubber, StreamScrubber
from gpulayer.logs.splitter import Run, Splitter

STREAMS = ("stdout", "stderr", "agent")
FILE_NAME = "lines"
_HEADER = struct.Struct("<2sBxiiqIdII")
_MAGIC = b"GL"
_READ = 4 * 1024 * 1024
_LAST_BYTES = 64 * 1024


class Frame(NamedTuple):
    """Lines of one rank and stream that were written in one call at one time; ``body`` has ``lines`` lines."""

    rank: int | None
    stream: str
    call: int | None
    seq: int
    lines: int
    time: float
    body: bytes


class SpooledLine(NamedTuple):
    """A line without its newline; ``seq`` counts from 0 per (rank, stream)."""

    rank: int | None
    stream: str
    seq: int
    time: float
    call: int | None
    text: str


def mark_key(rank: int | None, stream: str) -> str:
    """Return the name of a rank's stream in a mapping of marks: ``3/stdout``, ``none/agent``."""
    return f"{'none' if rank is None else rank}/{stream}"


class SpoolWriter:
    """Appends the lines of a task to its spool.

    Over ``cap_bytes`` (or on a full disk) a stream says so in a line of its own; of what it writes from there only the last
    lines are kept, and appended by ``close``. Opened again, it goes on where the file ends. What ``scrubber`` finds never
    gets into the file.
    """

    def __init__(self, folder: Path, cap_bytes: int = 256 * 1024 * 1024, *, scrubber: Scrubber | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._cap = cap_bytes
        self._scrubber = scrubber or Scrubber()
        self._lock = threading.Lock()
        self._sources: dict[tuple[int | None, str], _Source] = {}
        self._full = False
        self._file = os.open(folder / FILE_NAME, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._size = self._recover()

    def feed(self, rank: int | None, stream: str, data: bytes, time: float) -> None:
        """Take bytes as they were read; ``time`` is that of the reading. Any thread may call it."""
        with self._lock:
            source = self._source(rank, stream)
            for run in source.splitter.feed(source.scrubber.feed(data)):
                self._append(source, run, time)
            source.time = time

    def end(self, rank: int | None, stream: str) -> None:
        """Take note that a stream ended: its last line may have no newline."""
        with self._lock:
            source = self._source(rank, stream)
            for run in [*source.splitter.feed(source.scrubber.finish()), *source.splitter.finish()]:
                self._append(source, run, source.time)

    def close(self) -> None:
        """Write what is held back, and close the file."""
        for rank, stream in list(self._sources):
            self.end(rank, stream)
        with self._lock, suppress(OSError):
            for source in self._sources.values():
                self._write_last(source)
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _source(self, rank: int | None, stream: str) -> _Source:
        key = (rank, stream)
        if key not in self._sources:
            self._sources[key] = _Source(rank, stream, StreamScrubber(self._scrubber))
        return self._sources[key]

    def _append(self, source: _Source, run: Run, time: float) -> None:
        if not self._full and self._size + len(run.body) <= self._cap:
            try:
                self._write(source, run, time)
                return
            except OSError:
                self._full = True
        self._full = True
        if not source.cut:
            with suppress(OSError):
                self._write(
                    source,
                    _told(run.call, "The log of this task reached its limit: from here on only its last lines are kept."),
                    time,
                )
            source.cut = True
        source.hold(run, time)

    def _write_last(self, source: _Source) -> None:
        if source.dropped:
            self._write(source, _told(None, f"{source.dropped:,} lines are left out here."), source.time)
        for run, time in source.last:
            self._write(source, run, time)

    def _write(self, source: _Source, run: Run, time: float) -> None:
        frame = _frame(Frame(source.rank, source.stream, run.call, source.seq, run.lines, time, run.body))
        try:
            left = memoryview(frame)
            while left:
                left = left[os.write(self._file, left) :]
        except OSError:
            os.ftruncate(self._file, self._size)  # half a frame would hide all that come after it
            raise
        self._size += len(frame)
        source.seq += run.lines

    def _recover(self) -> int:
        size = 0
        for frame, end in _frames(self._file, 0):
            self._source(frame.rank, frame.stream).seq = frame.seq + frame.lines
            size = end
        os.ftruncate(self._file, size)
        return size


class SpoolReader:
    """Follows a spool from another process, also after its writer died; half a frame at the end is left for later."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME
        self._file: int | None = None
        self._at = 0

    def read(self, after: Mapping[str, int] | None = None, *, most: int = 10_000) -> list[SpooledLine]:
        """Return lines not returned before, in the order of their writing; an empty list when there are none yet.

        ``after`` gives the last known ``seq`` of streams by ``mark_key``: lines up to there are passed over. It stops after
        the frame in which ``most`` lines are reached.
        """
        if self._file is None:
            try:
                self._file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return []
        if os.fstat(self._file).st_size <= self._at:
            return []
        marks = after or {}
        lines: list[SpooledLine] = []
        for frame, end in _frames(self._file, self._at):
            self._at = end
            lines += _lines(frame, marks.get(mark_key(frame.rank, frame.stream), -1))
            if len(lines) >= most:
                break
        return lines

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


class _Source:
    """What the writer remembers of one stream."""

    def __init__(self, rank: int | None, stream: str, scrubber: StreamScrubber) -> None:
        self.rank = rank
        self.stream = stream
        self.scrubber = scrubber
        self.splitter = Splitter()
        self.seq = 0
        self.time = 0.0
        self.cut = False
        self.dropped = 0
        self.last: deque[tuple[Run, float]] = deque()
        self._held = 0

    def hold(self, run: Run, time: float) -> None:
        """Keep a run among the last ones, and let go of the oldest."""
        self.last.append((run, time))
        self._held += len(run.body)
        while self._held - len(self.last[0][0].body) >= _LAST_BYTES:
            old, _ = self.last.popleft()
            self._held -= len(old.body)
            self.dropped += old.lines


def _told(call: int | None, sentence: str) -> Run:
    return Run(call, 1, f"[gpulayer] {sentence}".encode())


def _frame(frame: Frame) -> bytes:
    rank, call = -1 if frame.rank is None else frame.rank, -1 if frame.call is None else frame.call
    fields = (_MAGIC, STREAMS.index(frame.stream), rank, call, frame.seq, frame.lines, frame.time, len(frame.body))
    check = zlib.crc32(frame.body, zlib.crc32(_HEADER.pack(*fields, 0)))
    return _HEADER.pack(*fields, check) + frame.body


def _frames(file: int, at: int) -> Iterator[tuple[Frame, int]]:
    """Yield the whole frames from ``at`` on, each with the place where it ends."""
    data, start = b"", 0
    while True:
        frame = _parse(data, start)
        if frame is None:
            data, at, start = data[start:], at + start, 0
            missing = _missing(data)
            more = os.pread(file, max(_READ, missing), at + len(data)) if missing > 0 else b""
            if not more:  # the end, half a frame, or a damaged one
                return
            data += more
            continue
        start += _HEADER.size + len(frame.body)
        yield frame, at + start


def _missing(data: bytes) -> int:
    whole = _HEADER.size + int(_HEADER.unpack_from(data)[7]) if len(data) >= _HEADER.size else _HEADER.size
    return whole - len(data)


def _parse(data: bytes, start: int) -> Frame | None:
    if len(data) - start < _HEADER.size:
        return None
    magic, stream, rank, call, seq, lines, time, size, check = _HEADER.unpack_from(data, start)
    body = data[start + _HEADER.size : start + _HEADER.size + size]
    if magic != _MAGIC or len(body) < size:
        return None
    if zlib.crc32(body, zlib.crc32(_HEADER.pack(magic, stream, rank, call, seq, lines, time, size, 0))) != check:
        return None
    return Frame(None if rank < 0 else rank, STREAMS[stream], None if call < 0 else call, seq, lines, time, body)


def _lines(frame: Frame, mark: int) -> list[SpooledLine]:
    if frame.seq + frame.lines - 1 <= mark:
        return []
    rank, stream, call, seq, _, time, body = frame
    texts = body.decode("utf-8", "replace").split("\n")
    return [SpooledLine(rank, stream, seq + at, time, call, text) for at, text in enumerate(texts) if seq + at > mark]
