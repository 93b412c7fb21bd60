"""Values of secrets don't get through, however they are written and cut."""

from __future__ import annotations

import base64
import itertools
import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpulayer.logs.scrub import Scrubber, StreamScrubber

VALUE = 'p"ss/wörd+\\ 1&2'
KEY = "-----BEGIN KEY-----\nAAAABBBBCCCC\nDDDDEEEEFFFF\nx==\n-----END KEY-----\n"

WRITTEN = {
    "raw": VALUE,
    "json": json.dumps({"token": VALUE}),
    "json as it is": json.dumps({"token": VALUE}, ensure_ascii=False),
    "python": str({"token": VALUE}),
    "url": f"https://h/?t={quote(VALUE, safe='')}&x=1",
    "url path": f"https://h/{quote(VALUE)}",
    "form": f"t={quote_plus(VALUE)}",
    "base64": base64.b64encode(VALUE.encode()).decode(),
    "base64 url": base64.urlsafe_b64encode(VALUE.encode()).decode().rstrip("="),
}


@pytest.mark.parametrize("how", WRITTEN)
def test_every_form_of_a_value_is_hidden(how: str) -> None:
    found = Scrubber([VALUE]).text(f"before {WRITTEN[how]} after")

    assert "***" in found
    assert found.startswith("before ")
    assert found.endswith(" after")
    for form in ("rd+", "rd%2B", "wörd", "w\\u00f6rd", "JzL3fDtnJk"):
        assert form not in found


def test_escapes_in_small_letters() -> None:
    assert Scrubber(["wörd/wörd"]).text("t=w%c3%b6rd%2fw%c3%b6rd") == "t=***"


@pytest.mark.parametrize("before", ["", "u", "us", "user:", "user:a", "user:ab"])
@pytest.mark.parametrize("after", ["", "x", ":more", " and more"])
def test_a_value_inside_of_something_in_base64_is_hidden(before: str, after: str) -> None:
    encoded = base64.b64encode(f"{before}correct-horse{after}".encode()).decode()

    found = Scrubber(["correct-horse"]).text(f"Authorization: Basic {encoded}")

    assert "***" in found
    left = found.removeprefix("Authorization: Basic ").replace("***", "").rstrip("=")
    assert len(left) <= len(base64.b64encode((before + after).encode())) + 4


def test_lines_of_a_value_are_hidden_each_for_itself_but_for_the_shortest() -> None:
    scrub = Scrubber([KEY])

    assert scrub.text(KEY) == "***\n***\n***\nx==\n***\n"
    assert scrub.text(KEY.replace("\n", "\r\n")) == "***\r\n***\r\n***\r\nx==\r\n***\r\n"
    assert scrub.text(json.dumps(KEY)) == '"***"'
    assert scrub.text("    DDDDEEEEFFFF") == "    ***"


def test_the_longest_value_goes_first() -> None:
    assert Scrubber(["password", "password-and-more"]).text("password-and-more password") == "*** ***"


def test_what_only_looks_like_a_value_stays() -> None:
    scrub = Scrubber(["password"])
    for text in ("", "passwor", "PASSWORD", "pass word", "pässword"):
        assert scrub.text(text) == text


def test_without_values_nothing_is_looked_at() -> None:
    scrub = Scrubber([])
    data = b"x" * 1000

    assert not scrub
    assert scrub.data(data) is data
    assert StreamScrubber(scrub).feed(data) == data


def test_half_characters_pass() -> None:
    assert Scrubber(["password"]).text("\udcff password") == "\udcff ***"


def fed(values: list[str], pieces: list[bytes]) -> bytes:
    stream = StreamScrubber(Scrubber(values))
    return b"".join([stream.feed(piece) for piece in pieces]) + stream.finish()


def test_a_value_in_pieces_is_hidden() -> None:
    data = b"x" * 1000 + b"password" + b"\rpassword\r\nrest pass"
    for size in (1, 2, 3, 7, 1004):
        assert fed(["password"], [data[at : at + size] for at in range(0, len(data), size)]) == (
            b"x" * 1000 + b"***" + b"\r***\r\nrest pass"
        )


def test_a_value_that_begins_as_a_shorter_one_is_hidden_whole() -> None:
    values = ["password", "password-and-more"]

    assert fed(values, [b"password", b"-and-more\n"]) == b"***\n"
    assert fed(values, [b"password", b"-and-less\n"]) == b"***-and-less\n"
    assert fed(values, [b"my password"]) == b"my ***"


def test_only_what_may_be_a_value_waits() -> None:
    stream = StreamScrubber(Scrubber(["password"]))

    assert stream.feed(b"Login: ") == b"Login: "
    assert stream.feed(b"pass") == b""
    assert stream.feed(b"\n") == b"pass\n"
    assert stream.feed(b"passpass") == b"pass"
    assert stream.feed(b"word") == b"***"


WORDS = st.sampled_from([b"aab", b"aabaab", b"b", b"a", b"\n", b"\r", b"*", b"aaabaaba"])


@given(data=st.lists(WORDS, max_size=30).map(b"".join), cuts=st.lists(st.integers(0, 90), max_size=20))
def test_how_it_is_cut_makes_no_difference(data: bytes, cuts: list[int]) -> None:
    values = ["aabaabaab", "baabaaba", "aaabaaba"]
    borders = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[begin:end] for begin, end in itertools.pairwise(borders)]

    found = fed(values, pieces)

    assert not [value for value in values if value.encode() in found]
    if not any(value.encode() in data for value in values):
        assert found == data


TEXT = st.characters(exclude_categories=["Cs"], exclude_characters="*")


@given(value=st.text(TEXT, min_size=8, max_size=40), around=st.text(TEXT, max_size=20), cut=st.integers(0, 60))
def test_any_value_is_hidden_wherever_it_is_cut(value: str, around: str, cut: int) -> None:
    scrub = Scrubber([value])
    lines = [line for line in value.replace("\r", "\n").split("\n") if len(line.strip()) >= 8]
    data = f"{around}{value}{around}".encode()

    found = fed([value], [data[:cut], data[cut:]])

    assert bool(lines) <= bool(scrub)
    assert not [line for line in lines if line.encode() in found]
