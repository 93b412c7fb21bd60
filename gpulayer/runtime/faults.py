"""What an exception says: its record for other machines, and whether it only tells of a peer's death."""

from __future__ import annotations

import math
import traceback
from types import TracebackType

from gpulayer.runtime.secrets import SCRUBBER
from gpulayer.spec.calls import Plain
from gpulayer.spec.rank_messages import Raised

_NAMES = frozenset({"DistBackendError", "DistNetworkError", "DistStoreError"})
_SOUNDS = (
    "connection closed by peer",
    "connection reset by peer",
    "connection refused",
    "broken pipe",
    "timed out waiting",
    "application timeout caused pair closure",
    "read timeout",
    "connection was likely closed",
    "socket timeout",
    "nccl error",
    "remote process exited",
)


def describe(error: BaseException, tb: TracebackType | None = None) -> Raised:
    """Return an exception as it is told, without secrets; ``tb`` stands in where frames were left out."""
    shown = error.__traceback__ if tb is None else tb
    return Raised(
        module=type(error).__module__,
        qualname=type(error).__qualname__,
        message=SCRUBBER.text(_text_of(error)),
        traceback=SCRUBBER.text("".join(traceback.format_exception(type(error), error, shown))),
        args=_plain_args(error),
        fields={name: _shown(value) for name in builtin_fields(error) if _is_plain(value := getattr(error, name))},
        communication=tells_of_a_peer(error),
    )


def tells_of_a_peer(error: BaseException) -> bool:
    """Say whether an exception reads like the death of a peer, which is seldom the cause of a failure."""
    if any(cls.__name__ in _NAMES for cls in type(error).__mro__):
        return True
    if isinstance(error, ConnectionError):
        return True
    return type(error) is RuntimeError and any(sound in _text_of(error).lower() for sound in _SOUNDS)


def builtin_fields(error: BaseException) -> list[str]:
    """Return the fields that a builtin exception keeps beside ``args`` (``errno``, ``code``, ``name``) and that are set."""
    names = []
    for base in type(error).__mro__:
        if base.__module__ == "builtins" and base not in (BaseException, Exception, object):
            names += [
                name for name, held in vars(base).items() if type(held).__name__ in ("member_descriptor", "getset_descriptor")
            ]
    return [name for name in names if not name.startswith("_") and getattr(error, name, None) is not None]


def _plain_args(error: BaseException) -> tuple[Plain, ...] | None:
    return tuple(map(_shown, error.args)) if all(map(_is_plain, error.args)) else None


def _is_plain(value: object) -> bool:
    """Say whether JSON carries a value as it is."""
    if type(value) is float:
        return math.isfinite(value)
    return value is None or type(value) in (bool, int, str)


def _shown(value: Plain) -> Plain:
    return SCRUBBER.text(value) if isinstance(value, str) else value


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as broken:  # a __str__ of the user may raise
        return f"<{type(error).__name__} whose message raised {type(broken).__name__}>"
