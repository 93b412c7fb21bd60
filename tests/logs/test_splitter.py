"""Bytes to lines: whatever the pieces they come in."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpulayer.logs.splitter import CALL_MARKER, GOES_ON, Splitter

LINES = [
    (b"", []),
    (b"a\nb\n", [(None, "a"), (None, "b")]),
    (b"a\n\n\nb", [(None, "a"), (None, ""), (None, ""), (None, "b")]),
    (b"no newline at the end", [(None, "no newline at the end")]),
    (b"windows\r\nlines\r\n", [(None, "windows"), (None, "lines")]),
    (b"10%\r20%\r100%\n", [(None, "100%")]),
    (b"\r10%\r20%\r100%\r\n", [(None, "100%")]),
    (b"bar without an end\r", [(None, "bar without an end")]),
    (b"\r\r\r", []),
    (b"nul \0 here\n", [(None, "nul \0 here")]),
    (b"bad \xff\xfe bytes\n", [(None, "bad \ufffd\ufffd bytes")]),
    (b"half \xe2\x82\n", [(None, "half \ufffd")]),
    (b"a\x0bb\x0cc\x1cd\xc2\x85e\xe2\x80\xa8f\n", [(None, "a\x0bb\x0cc\x1cd\x85e\u2028f")]),
    (b"before\n\x1egpulayer call=0\nin\n\x1egpulayer call=-\nafter\n", [(None, "before"), (0, "in"), (None, "after")]),
    (b"no newline\x1egpulayer call=12\nin\n", [(None, "no newline"), (12, "in")]),
    (b"1%\r99%\r\x1egpulayer call=3\r\nin\n", [(None, "99%"), (3, "in")]),
    (b"\x1egpulayer call=x\n", [(None, "\x1egpulayer call=x")]),
    (b"not \x1egpulayer call=3 a marker\n", [(None, "not \x1egpulayer call=3 a marker")]),
    (b"\x1egpulayer call=1\n\x1egpulayer call=2\nin\n", [(2, "in")]),
    (b"\x1egpulayer call=1", []),
]


def split(pieces: list[bytes], longest: int = 1024 * 1024) -> list[tuple[int | None, str]]:
    splitter = Splitter(longest)
    runs = [run for piece in pieces for run in splitter.feed(piece)] + splitter.finish()
    lines = []
    for run in runs:
        texts = run.body.decode("utf-8", "replace").split("\n")
        assert len(texts) == run.lines
        lines += [(run.call, text) for text in texts]
    return lines


@pytest.mark.parametrize(("data", "lines"), LINES)
def test_bytes_become_these_lines(data: bytes, lines: list[tuple[int | None, str]]) -> None:
    assert split([data]) == lines
    assert split([data[at : at + 1] for at in range(len(data))]) == lines


PARTS = st.sampled_from(
    [b"\r", b"\n", b"\x1e", CALL_MARKER, CALL_MARKER + b"7\n", CALL_MARKER + b"-\n", b"0", b"ab", b"\xc3\xa9", b"\xf0\x9f"]
)
DATA = st.lists(PARTS | st.binary(max_size=12), max_size=40).map(b"".join)


@given(data=DATA, cuts=st.lists(st.integers(0, 300), max_size=20), longest=st.integers(5, 40))
def test_any_cut_of_any_bytes_gives_the_same_lines(data: bytes, cuts: list[int], longest: int) -> None:
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    pieces = [data[start:end] for start, end in itertools.pairwise(places)]
    assert split(pieces, longest) == split([data], longest)
    assert split([data[at : at + 1] for at in range(len(data))], longest) == split([data], longest)


@given(texts=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\n\x1e"), max_size=30)))
def test_ordinary_text_comes_out_as_it_went_in(texts: list[str]) -> None:
    assert [text for _, text in split(["".join(f"{text}\n" for text in texts).encode()])] == texts


def test_a_line_over_the_limit_is_cut_between_characters_and_says_so() -> None:
    text = "é" * 1_500_000
    pieces = [line for _, line in split([f"{text}\nnext\n".encode()])]
    assert pieces[-1] == "next"
    assert len(pieces) == 4
    assert all(piece.endswith(GOES_ON.decode()) for piece in pieces[:2])
    assert "".join(piece.removesuffix(GOES_ON.decode()) for piece in pieces[:-1]) == text
    assert max(len(piece.encode()) for piece in pieces) <= 1024 * 1024 + len(GOES_ON)


def test_a_bar_that_is_drawn_for_ever_takes_no_memory() -> None:
    splitter = Splitter(1000)
    for percent in range(100_000):
        assert splitter.feed(b"%d%% of it\r" % percent) == []
    assert len(splitter._open) <= 1100
    assert [run.body for run in splitter.feed(b"\n")] == [b"99999% of it"]
