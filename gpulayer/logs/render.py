"""Log lines for people: ``[rank3] text``, in colours on a terminal."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TextIO

from gpulayer.logs.harmless import harmless
from gpulayer.spec.logs import LogLine

_COLOURS = (36, 33, 35, 32, 34, 96, 93, 95, 92, 94)
_DIM = 2
Workers = Mapping[tuple[int, int], str]


class Renderer:
    """Makes one printable line of each log line, always with its tag, also inside tracebacks.

    ``workers`` (names by attempt and node rank) adds the worker to the tag: ``[rank3@gpu-box-2]``.
    """

    def __init__(self, *, colour: bool = False, tags: bool = True, workers: Workers | None = None) -> None:
        self._colour = colour
        self._tags = tags
        self._workers = workers or {}

    @classmethod
    def on(cls, stream: TextIO, *, tags: bool = True, workers: Workers | None = None) -> Renderer:
        """Return a renderer with colours where ``stream`` is a terminal that wants them."""
        wanted = stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
        return cls(colour=wanted, tags=tags, workers=workers)

    def line(self, line: LogLine) -> str:
        """Return the text with its tag and without a newline; an untagged line stays as it was printed."""
        tag = self.tag(line) if self._tags else ""
        if not tag:
            return line.text
        return f"{self._painted(tag, line.rank)} {line.text}" if line.text else self._painted(tag, line.rank)

    def tag(self, line: LogLine) -> str:
        """Return ``[rank3]`` for a rank, ``[node1]`` for the agent of a node, nothing or the worker for a plain command."""
        who = f"node{line.node_rank}" if line.stream in ("agent", "prepare") else ""
        if line.rank is not None:
            who = f"rank{line.rank}"
        tag = "@".join(filter(None, (who, self._workers.get((line.attempt, line.node_rank)))))
        return f"[{harmless(tag)}]" if tag else ""

    def _painted(self, tag: str, rank: int | None) -> str:
        if not self._colour:
            return tag
        return f"\x1b[{_DIM if rank is None else _COLOURS[rank % len(_COLOURS)]}m{tag}\x1b[0m"
