"""Messages over a Unix socket: one JSON object a line, between the processes of one machine."""

from __future__ import annotations

import os
import select
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, TypeAdapter

from gpulayer.errors import MessageTooLarge

T = TypeVar("T")

LONGEST_MESSAGE = 64 * 1024 * 1024
_LONGEST_ADDRESS = 107
_CHUNK = 256 * 1024


def listen(folder: Path, name: str = "rank.sock") -> Listener:
    """Listen at ``folder/name``, which may be longer than a socket address; what was there before is replaced."""
    path = folder / name
    path.unlink(missing_ok=True)
    ours = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _address(path) as address:
            ours.bind(address)
        path.chmod(0o600)
        ours.listen(128)
    except BaseException:
        ours.close()
        raise
    return Listener(ours, path)


def connect(path: Path | str, timeout_s: float = 10.0) -> Connection:
    """Connect to a listener; raises ``TimeoutError`` when it took nobody in for ``timeout_s``."""
    ours = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # A full queue makes connect() wait for this long; a non-blocking one would fail at once with EAGAIN.
        _limit_sends(ours, timeout_s)
        with _address(Path(path)) as address:
            ours.connect(address)
        _limit_sends(ours, 0.0)
    except BlockingIOError as cause:
        ours.close()
        raise TimeoutError(f"{path} took no connection for {timeout_s} s.") from cause
    except BaseException:
        ours.close()
        raise
    return Connection(ours)


class Listener:
    """A socket that waits for connections. ``close`` ends an ``accept`` in another thread."""

    def __init__(self, ours: socket.socket, path: Path) -> None:
        self.path = path
        self._socket = ours
        self._accepting = threading.Lock()
        self._closed = False

    def accept(self, timeout_s: float | None = None) -> Connection | None:
        """Return the next connection, or None once closed; ``TimeoutError`` when none came in time."""
        with self._accepting:
            if self._closed:
                return None
            _wait_readable(self._socket, timeout_s)
            try:
                theirs, _ = self._socket.accept()
            except OSError:
                if self._closed:
                    return None
                raise
            return Connection(theirs)

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with self._accepting:
            self._socket.close()
        self.path.unlink(missing_ok=True)


class Connection:
    """One line-framed conversation. Any thread may send; ``close`` ends a ``receive`` in another thread."""

    def __init__(self, ours: socket.socket) -> None:
        self._socket = ours
        self._sending = threading.Lock()
        self._receiving = threading.Lock()
        self._closed = False
        self._buffer = bytearray()
        self._searched = 0

    def send(self, message: BaseModel) -> None:
        """Send one message whole; raises ``BrokenPipeError`` (an ``OSError``) when the other end is gone."""
        line = message.model_dump_json().encode() + b"\n"
        if len(line) > LONGEST_MESSAGE:
            raise _too_large(len(line))
        with self._sending:
            if self._closed:
                raise BrokenPipeError("The connection is closed.")
            self._socket.sendall(line)

    def receive(self, adapter: TypeAdapter[T], timeout_s: float | None = None) -> T | None:
        """Return the next message, or None at the end of the stream (a half message there is dropped).

        Raises ``TimeoutError`` when no whole message came in time; what came stays for the next ``receive``. A message that
        the adapter refuses raises its ``ValidationError``, and the one after it can still be received.
        """
        line = self._line(timeout_s)
        return None if line is None else adapter.validate_json(line)

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def pending(self) -> bool:
        """Whether a whole message is already here, which waiting on ``fileno`` would not tell."""
        return b"\n" in self._buffer

    def close(self) -> None:
        """Close both directions; harmless when repeated."""
        self._closed = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with self._receiving:  # so that a descriptor in use is not closed and given to somebody else
            self._socket.close()

    def _line(self, timeout_s: float | None) -> bytes | None:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        with self._receiving:
            while True:
                end = self._buffer.find(b"\n", self._searched)
                if end >= 0:
                    return self._take(end)
                self._searched = len(self._buffer)
                if self._searched > LONGEST_MESSAGE:
                    raise _too_large(self._searched)
                if self._closed:
                    return None
                _wait_readable(self._socket, None if deadline is None else max(0.0, deadline - time.monotonic()))
                try:
                    data = self._socket.recv(_CHUNK)
                except (ConnectionError, BlockingIOError):
                    data = b""
                if not data:
                    return None
                self._buffer += data

    def _take(self, end: int) -> bytes:
        line = bytes(memoryview(self._buffer)[:end])
        del self._buffer[: end + 1]
        self._searched = 0
        return line


def _wait_readable(ours: socket.socket, timeout_s: float | None) -> None:
    poll = select.poll()
    poll.register(ours, select.POLLIN)
    if not poll.poll(None if timeout_s is None else timeout_s * 1000):
        raise TimeoutError(f"Nothing came within {timeout_s:.3g} s.")


def _limit_sends(ours: socket.socket, seconds: float) -> None:
    whole = int(seconds)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", whole, int((seconds - whole) * 1e6)))


def _too_large(size: int) -> MessageTooLarge:
    return MessageTooLarge(f"A message of {size:,} bytes is over the limit of {LONGEST_MESSAGE:,}.", size=size)


@contextmanager
def _address(path: Path) -> Iterator[str]:
    """Name ``path`` in at most 107 bytes, through a descriptor of its folder where the path itself is longer."""
    if len(os.fsencode(path)) <= _LONGEST_ADDRESS:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
