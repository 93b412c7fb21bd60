"""The user's exceptions on their way home: as the same class with the same args, without running its constructor."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from gpulayer import errors
from gpulayer.client import raising
from gpulayer.runtime import faults, secrets
from gpulayer.spec.calls import ErrorRecord
from gpulayer.strategies.codec import Decoder, Encoder, Lost, NotCarried
from gpulayer.strategies.outcome import bodies

_MOST = 50
"""How many exceptions of one failure are carried: a chain may be as long as a loop that went wrong."""

_OURS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep


def record_error(error: BaseException, path: Path, text: Callable[[str], str] = str) -> None:
    """Write what ``rebuild_error`` reads of an exception, of those that it came from, and of a group's members.

    That is args, attributes and notes; they show no secret.
    """

    def shown(words: str) -> str:
        return secrets.SCRUBBER.text(text(words))

    encoder = Encoder(shown)
    written = _Writer(encoder, shown).written(error)
    bodies.save({"nodes": encoder.nodes, **(written or {})}, path)


class _Writer:
    """Writes exceptions as plain data, each once."""

    def __init__(self, encoder: Encoder, shown: Callable[[str], str]) -> None:
        self._encoder = encoder
        self._shown = shown
        self._seen: set[int] = set()

    def written(self, error: BaseException | None) -> dict[str, Any] | None:
        """Return one exception; None for none, and for one that was written already."""
        if error is None or id(error) in self._seen or len(self._seen) >= _MOST:
            return None
        self._seen.add(id(error))
        own = {name: value for name, value in vars(error).items() if name != "__notes__"}
        slots = {name: getattr(error, name) for name in faults.builtin_fields(error)}
        members = error.exceptions if isinstance(error, BaseExceptionGroup) else None
        return {
            "module": type(error).__module__,
            "qualname": type(error).__qualname__,
            "args": [_arg(self._encoder, value, self._shown) for value in (error.args if members is None else error.args[:1])],
            "attrs": self._attributes({**own, **slots}),
            "notes": [self._shown(str(note)) for note in getattr(error, "__notes__", ())],
            "members": None if members is None else [self.written(member) for member in members],
            "cause": self.written(error.__cause__),
            "context": self.written(error.__context__),
            "suppress": error.__suppress_context__,
        }

    def _attributes(self, values: dict[str, Any]) -> dict[str, Any]:
        found = {}
        for name, value in values.items():
            try:
                found[name] = self._encoder.encode(value)
            except NotCarried:
                continue
        return found


def _arg(encoder: Encoder, value: Any, shown: Callable[[str], str]) -> Any:
    """An argument that can't be carried is what it would have been printed as."""
    try:
        return encoder.encode(value)
    except NotCarried:
        try:
            return shown(repr(value))
        except Exception:  # a __repr__ of the user's may raise
            return f"<{type(value).__name__}>"


def without_our_frames(tb: TracebackType | None) -> TracebackType | None:
    """Drop the frames above the first one that isn't ours."""
    while tb is not None and tb.tb_frame.f_code.co_filename.startswith(_OURS):
        tb = tb.tb_next
    return tb


def rebuild_error(record: ErrorRecord, body: Path | None, text: Callable[[str], str] = str) -> BaseException:
    """Return the exception that a rank recorded, with its remote traceback as a note.

    Its class is looked up, never imported from a package that this process doesn't use, and its constructor isn't called.
    A class that isn't here, or that can't be made, becomes ``RemoteError``.
    """
    loaded = None if body is None else bodies.load(body)
    by_record = loaded is None or record.module == errors.__name__
    error = raising.rebuilt(record) if by_record else _rebuild(record, loaded or {}, text)
    if error is None:
        error = raising.unknown(record)
    for note in (loaded or {}).get("notes", ()):
        error.add_note(text(note))
    return raising.noted(error, record)


def _rebuild(record: ErrorRecord, body: dict[str, Any], text: Callable[[str], str]) -> BaseException | None:
    return _made({**body, "module": record.module, "qualname": record.qualname}, Decoder(body["nodes"], text))


def _made(written: dict[str, Any], decoder: Decoder) -> BaseException | None:
    """Make one exception of its record, with those that it came from as far as they can be made."""
    cls, members = raising.class_of(written["module"], written["qualname"]), written.get("members")
    try:
        args = [decoder.decode(value) for value in written["args"]]
        attrs = {name: decoder.decode(value) for name, value in written["attrs"].items()}
    except Lost:
        return None
    if members is not None:
        args.append([_inner(member, decoder) for member in members])
        if None in args[-1]:
            return None
    error = None if cls is None else raising.make(cls, args, attrs)
    if error is not None:
        error.__cause__ = _inner(written.get("cause"), decoder)
        error.__context__ = _inner(written.get("context"), decoder) or error.__cause__
        error.__suppress_context__ = bool(written.get("suppress"))
    return error


def _inner(written: dict[str, Any] | None, decoder: Decoder) -> BaseException | None:
    error = None if written is None else _made(written, decoder)
    if written is not None and error is not None:
        for note in written["notes"]:
            error.add_note(note)
    return error


def traceback_of(error: BaseException) -> str:
    """Return the text that Python prints of an exception, without our own frames above the user's."""
    shown = without_our_frames(error.__traceback__)
    return "".join(traceback.format_exception(type(error), error, shown))
