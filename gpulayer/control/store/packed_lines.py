"""Batches of log lines as they are stored: compressed bytes, and the lines again."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from gpulayer.spec.logs import LogLine, of_checked

_VERSION = b"\x01"
_SHARED = ("job_id", "attempt", "node_rank", "rank", "stream", "call", "time")


def encode(lines: Sequence[LogLine]) -> bytes:
    """Pack lines; what neighbours share is written once."""
    runs = [[*shared, seq, texts] for shared, seq, texts in _runs(lines)]
    return _VERSION + zlib.compress(json.dumps(runs, separators=(",", ":")).encode(), 1)


def decode(data: bytes) -> list[LogLine]:
    """Return the lines that ``encode`` packed, in their order."""
    if data[:1] != _VERSION:
        raise ValueError(f"A newer program packed these lines (version {data[:1]!r}).")
    lines: list[LogLine] = []
    for *shared, seq, texts in json.loads(zlib.decompress(data[1:])):
        fields: dict[str, Any] = dict(zip(_SHARED, shared, strict=True))
        lines += [of_checked({**fields, "seq": seq + at, "text": text}) for at, text in enumerate(texts)]
    return lines


def _runs(lines: Iterable[LogLine]) -> Iterator[tuple[tuple[Any, ...], int, list[str]]]:
    """Group neighbours that share all fields and follow each other by number."""
    for key, group in groupby(enumerate(lines), key=lambda item: (*_shared(item[1]), item[1].seq - item[0])):
        members = [line for _, line in group]
        yield key[:-1], members[0].seq, [line.text for line in members]


def _shared(line: LogLine) -> tuple[Any, ...]:
    return (line.job_id, line.attempt, line.node_rank, line.rank, line.stream, line.call, line.time)
