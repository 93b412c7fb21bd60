"""The random state at ``import gpulayer``: noted at the caller, and taken over at the same place of the script in the job."""

from __future__ import annotations

import importlib
import os
import sys
from types import FrameType
from typing import Any

_AT_IMPORT: dict[str, Any] = {}


def meet() -> None:
    """Note the state (caller) or take the caller's over (job), if it is the user's code that imports us."""
    if not _by_the_user(sys._getframe(1)):
        return
    if not os.environ.get("GPULAYER_JOB_ID"):
        note()
        return
    half = sys.modules.get("gpulayer.strategies.in_job")
    take_over = getattr(half, "take_random_start", None)
    if take_over is not None:
        take_over()


def note() -> None:
    """Remember Python's and (only when they are imported) numpy's random state as they are, and the seed torch began with."""
    random, numpy = importlib.import_module("random"), sys.modules.get("numpy")
    _AT_IMPORT.clear()
    _AT_IMPORT["python"] = random.getstate()
    if numpy is not None and hasattr(numpy, "random"):
        _AT_IMPORT["numpy"] = numpy.random.get_state()
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "initial_seed"):
        _AT_IMPORT["torch_seed"] = torch.initial_seed()


def note_numpy() -> None:
    """Note numpy's state when Lightning has brought it in, if our import came before: nobody draws in between."""
    numpy = sys.modules.get("numpy")
    if "python" in _AT_IMPORT and "numpy" not in _AT_IMPORT and numpy is not None and hasattr(numpy, "random"):
        _AT_IMPORT["numpy"] = numpy.random.get_state()


def at_import() -> dict[str, Any]:
    """Return what was noted: ``python`` as ``random.getstate()``, ``numpy`` as ``numpy.random.get_state()``."""
    return dict(_AT_IMPORT)


def _by_the_user(frame: FrameType | None) -> bool:
    """Say whether a script imports us, and not one of our own modules that met the package's front missing."""
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if not name.startswith("importlib") and name != "gpulayer":
            return not name.startswith("gpulayer.")
        frame = frame.f_back
    return True
