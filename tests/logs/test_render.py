"""Log lines as people see them."""

from __future__ import annotations

import io

import pytest

from gpulayer.logs.render import Renderer
from gpulayer.spec.logs import LogLine, StreamName


def line(text: str, rank: int | None = 3, stream: StreamName = "stdout", node_rank: int = 1) -> LogLine:
    return LogLine(job_id="job-1", attempt=1, node_rank=node_rank, rank=rank, stream=stream, seq=0, time=0.0, text=text)


@pytest.mark.parametrize(
    ("given", "printed"),
    [
        (line("hello"), "[rank3] hello"),
        (line("  File 'x.py'", stream="stderr"), "[rank3]   File 'x.py'"),
        (line(""), "[rank3]"),
        (line("W0101 torchrun says", rank=None, stream="agent"), "[node1] W0101 torchrun says"),
        (line("a plain command", rank=None), "a plain command"),
    ],
)
def test_a_line_is_printed_with_its_tag(given: LogLine, printed: str) -> None:
    assert Renderer().line(given) == printed


def test_tags_can_name_the_worker_and_can_be_off() -> None:
    assert Renderer(workers={(1, 1): "gpu-box-2"}).line(line("hello")) == "[rank3@gpu-box-2] hello"
    assert Renderer(tags=False).line(line("hello")) == "hello"


def test_colours_are_for_terminals_only(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert Renderer.on(io.StringIO()).line(line("hello")) == "[rank3] hello"
    assert Renderer.on(Terminal()).line(line("hello")) == "\x1b[32m[rank3]\x1b[0m hello"
    monkeypatch.setenv("NO_COLOR", "1")
    assert Renderer.on(Terminal()).line(line("hello")) == "[rank3] hello"
