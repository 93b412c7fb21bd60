"""Takes the values of secrets out of what a job says, by value, in each of the forms in which they are usually written.

Standard library only: the guard imports it.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus

HIDDEN = b"***"
LEAST = 8
"""Of a value with several lines, those shorter than this are not looked for: they would blot out common words."""


class Scrubber:
    """Finds the values of secrets and puts ``***`` in their place; without values it returns what it is given."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        forms = sorted({form for value in values for form in _forms(value)}, key=len, reverse=True)
        self._longest = len(forms[0]) if forms else 0
        self._pattern = re.compile(b"|".join(map(re.escape, forms)))
        self._hint = re.compile(_hint(forms))
        self._by_first: dict[int, list[bytes]] = {}
        for form in forms:
            self._by_first.setdefault(form[0], []).append(form)

    def __bool__(self) -> bool:
        return self._longest > 0

    def data(self, data: bytes) -> bytes:
        """Scrub what is whole."""
        return self._cut_out(data, len(data))[0] if self else data

    def text(self, text: str) -> str:
        if not (self and text):
            return text
        return self.data(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def begun(self, data: bytes) -> tuple[bytes, bytes]:
        """Scrub the beginning of a stream, and return what may be half a value apart: only what follows will tell."""
        return self._cut_out(data, self._undecided(data))

    def _cut_out(self, data: bytes, end: int) -> tuple[bytes, bytes]:
        """Scrub the values that begin before ``end``; returns also what is left after that."""
        pieces, at = [], 0
        for found in self._found(data, end):
            pieces += [data[at : found.start()], HIDDEN]
            at = found.end()
        end = max(at, end)
        return (b"".join([*pieces, data[at:end]]), data[end:]) if at or end < len(data) else (data, b"")

    def _found(self, data: bytes, end: int) -> Iterator[re.Match[bytes]]:
        """Find values one after the other, the longest at each place; trying all forms at every byte would take too long."""
        at = 0
        while (hint := self._hint.search(data, at)) and hint.start() < end:
            at = hint.start() + 1
            if found := self._pattern.match(data, hint.start()):
                yield found
                at = found.end()

    def _undecided(self, data: bytes) -> int:
        """Return the first place from which on all of the rest begins a longer form."""
        begin = max(data.rfind(b"\n") + 1, len(data) - self._longest + 1)  # no form holds a newline
        for at in range(begin, len(data)):
            for form in self._by_first.get(data[at], ()):
                if len(form) > len(data) - at and data.endswith(form[: len(data) - at]):
                    return at
        return len(data)


class StreamScrubber:
    """Scrubs one stream, however its bytes are cut into pieces: what may be half a value waits for the next piece."""

    def __init__(self, scrubber: Scrubber) -> None:
        self._scrubber = scrubber
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        if not self._scrubber:
            return data
        scrubbed, self._held = self._scrubber.begun(self._held + data)
        return scrubbed

    def finish(self) -> bytes:
        """Return what was held back, at the end of the stream."""
        held, self._held = self._held, b""
        return self._scrubber.data(held)


def _hint(forms: list[bytes]) -> bytes:
    """Write a pattern that is quick to search for: at each place of the shortest form, the bytes that any form has there."""
    places = ({re.escape(bytes((each,))) for each in place} for place in zip(*forms, strict=False))
    return b"".join(b"[" + b"".join(place) + b"]" for place in places)


def _forms(value: str) -> set[bytes]:
    """Return the texts by which a value is known: as it is, and as JSON, Python, URLs and base64 write it."""
    whole = {value, value.strip()}
    written = {form for each in whole for form in (*_as_json(each), repr(each)[1:-1], *_in_urls(each)) if len(form) >= LEAST}
    forms = {form.encode("utf-8", "surrogatepass") for form in written | set(_lines(value))}
    for each in whole:
        forms.update(_in_base64(each.encode("utf-8", "surrogatepass")))
    return {form for form in forms if len(form) >= LEAST and b"\n" not in form and b"\r" not in form}


def _lines(value: str) -> Iterator[str]:
    """A value of several lines is printed as lines, whatever stands around them."""
    for line in re.split(r"[\r\n]+", value):
        if len(line.strip()) >= LEAST:
            yield line
            yield line.strip()


def _as_json(value: str) -> Iterator[str]:
    for ascii_only in (True, False):
        yield json.dumps(value, ensure_ascii=ascii_only)[1:-1]


def _in_urls(value: str) -> Iterator[str]:
    encoded = value.encode("utf-8", "surrogatepass")
    for form in (quote(encoded, safe=""), quote(encoded), quote_plus(encoded)):
        yield form
        yield re.sub(r"%[0-9A-F]{2}", lambda found: found[0].lower(), form)


def _in_base64(value: bytes) -> Iterator[bytes]:
    """Alone, and inside something longer: there the characters that the value decides by itself, at each of three places."""
    for altchars in (b"+/", b"-_"):
        alone = base64.b64encode(value, altchars)
        yield alone
        yield alone.rstrip(b"=")
        for before in range(3):
            encoded = base64.b64encode(bytes(before) + value, altchars)
            yield encoded[-(-8 * before // 6) : 8 * (before + len(value)) // 6]
