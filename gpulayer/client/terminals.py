"""Who draws in a terminal: of several processes that show jobs in one, the first; the others print plain lines."""

from __future__ import annotations

import fcntl
import functools
import os
from typing import TextIO


def is_ours_alone(stream: TextIO) -> bool:
    """Say whether no other process of ours draws in the terminal behind a stream, and keep it for this one if so."""
    try:
        terminal = os.ttyname(stream.fileno())
    except (OSError, ValueError):  # no terminal that has a name: nobody else can be asked
        return True
    return _taken(terminal, os.getpid())


@functools.cache
def _taken(terminal: str, pid: int) -> bool:
    """Lock a terminal for as long as the process lives; one that was forked from it has to ask for itself."""
    try:
        descriptor = os.open(terminal, os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return False
    return True
