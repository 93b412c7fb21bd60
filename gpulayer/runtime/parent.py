"""Ties a process's life to its parent's."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent dies, where the kernel can."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def orphaned(guard: int, by_torchrun: bool) -> bool:
    """Say whether the parent died before ``die_with_parent`` could tell: then init, or torchrun's own parent, adopted us."""
    parent = os.getppid()
    return parent == 1 or (by_torchrun and parent == guard)
