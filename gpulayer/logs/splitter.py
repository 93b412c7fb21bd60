"""From the bytes that a process wrote to the lines that people read, whatever the pieces they came in.

Standard library only: the guard imports it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

LONGEST_LINE = 1024 * 1024
CALL_MARKER = b"\x1egpulayer call="
GOES_ON = " … [gpulayer: this line goes on below]".encode()

_WHOLE_MARKER = re.compile(re.escape(CALL_MARKER) + rb"(\d{1,9}|-)\r?\Z")
_PART_MARKER = re.compile(re.escape(CALL_MARKER) + rb"(\d{0,9}|-)\r?\Z")


class Run(NamedTuple):
    """Lines written one after the other in the same call, joined by newlines (none at the end)."""

    call: int | None
    lines: int
    body: bytes


class Splitter:
    """Splits one stream into lines; how its bytes are cut into pieces makes no difference.

    Of a text that was overwritten with ``\\r`` the last state stays. Lines over the limit are cut between characters. The
    lines with which the in-job half marks the begin and end of a call are taken out.
    """

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._open = bytearray()
        self._call: int | None = None

    def feed(self, data: bytes) -> list[Run]:
        """Return the lines that ``data`` completes."""
        end = data.rfind(b"\n")
        if end < 0:
            self._open += data
            return self._shorten()
        whole = bytes(self._open) + data[:end]
        self._open = bytearray(data[end + 1 :])
        return self._runs(whole) + self._shorten()

    def finish(self) -> list[Run]:
        """Return what is left at the end of the stream."""
        left, self._open = bytes(self._open), bytearray()
        return self._runs(left) if left.strip(b"\r") else []

    def _runs(self, whole: bytes) -> list[Run]:
        if len(whole) <= self._longest and b"\r" not in whole and b"\x1e" not in whole:
            return [Run(self._call, whole.count(b"\n") + 1, whole)]
        runs: list[Run] = []
        lines: list[bytes] = []
        for line in whole.split(b"\n"):
            text, marker = self._marker(line, _WHOLE_MARKER)
            pieces, rest = self._fold(text)
            lines += pieces
            rest = rest.rstrip(b"\r")
            if marker is None:
                lines.append(rest)
                continue
            if rest:
                lines.append(rest)
            runs += self._joined(lines)
            lines = []
            self._call = None if marker == b"-" else int(marker)
        return runs + self._joined(lines)

    def _joined(self, lines: list[bytes]) -> list[Run]:
        return [Run(self._call, len(lines), b"\n".join(lines))] if lines else []

    def _shorten(self) -> list[Run]:
        """Keep the open line within the limit: fold it, and give away what can't change any more."""
        if len(self._open) <= self._longest:
            return []
        held = bytes(self._open)
        start = held.rfind(b"\x1e")
        tail = held[start:] if start >= 0 else b""
        if not (CALL_MARKER.startswith(tail) or _PART_MARKER.match(tail)):
            tail = b""
        pieces, rest = self._fold(held[: len(held) - len(tail)])
        self._open = bytearray(rest + tail)
        return self._joined(pieces)

    def _marker(self, line: bytes, pattern: re.Pattern[bytes]) -> tuple[bytes, bytes | None]:
        start = line.rfind(b"\x1e")
        found = pattern.match(line, start) if start >= 0 else None
        return (line[:start], found[1]) if found else (line, None)

    def _fold(self, text: bytes) -> tuple[list[bytes], bytes]:
        """Return the pieces cut off ``text``, and its last state (with the ``\\r`` after it, which the next byte answers)."""
        pieces: list[bytes] = []
        last = b""
        for part in text.split(b"\r"):
            if not part:
                continue
            start = 0
            while len(part) - start > self._longest:
                end = _border(part, start + self._longest)
                pieces.append(part[start:end] + GOES_ON)
                start = end
            last = part[start:]
        return pieces, last + (b"\r" if text.endswith(b"\r") else b"")


def _border(text: bytes, at: int) -> int:
    """Return the last border between UTF-8 characters at or shortly before ``at``."""
    for place in range(at, max(at - 4, 1), -1):
        if text[place] & 0xC0 != 0x80:
            return place
    return at
