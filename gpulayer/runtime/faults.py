"""What an exception says: its record for other machines, and whether it only tells of a peer's death."""

from __future__ import annotations

import traceback
from types import TracebackType

from gpulayer.runtime.secrets import SCRUBBER
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
        communication=tells_of_a_peer(error),
    )


def tells_of_a_peer(error: BaseException) -> bool:
    """Say whether an exception reads like the death of a peer, which is seldom the cause of a failure."""
    if any(cls.__name__ in _NAMES for cls in type(error).__mro__):
        return True
    if isinstance(error, ConnectionError):
        return True
    return type(error) is RuntimeError and any(sound in _text_of(error).lower() for sound in _SOUNDS)


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as broken:  # a __str__ of the user may raise
        return f"<{type(error).__name__} whose message raised {type(broken).__name__}>"
