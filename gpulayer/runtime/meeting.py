"""Tells the worker when this rank goes into torch's first meeting of all ranks, and when it came out of it.

A rank that never gets there makes all others wait for half an hour, and without a word of where.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from types import ModuleType
from typing import Any

from gpulayer.runtime import imports
from gpulayer.runtime.report import RankLink

PACKAGE = "torch.distributed"
HOME = "torch.distributed.distributed_c10d"
MEETS = "init_process_group"
"""Where torch keeps what all ranks meet in: ``torch.distributed`` and others take it from there as they are imported."""


def tell(link: RankLink) -> None:
    """Tell of the first meeting, whenever the program imports torch."""
    imports.when(HOME, lambda module: _wrap(module, link))


def _wrap(module: ModuleType, link: RankLink) -> None:
    meets = getattr(module, MEETS, None)
    if meets is None:
        return

    @functools.wraps(meets)
    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        with contextlib.suppress(OSError):  # without its worker a rank leaves by itself
            link.joins()
        result = meets(*args, **kwargs)
        with contextlib.suppress(OSError):
            link.joins(met=True)
        return result

    for holder in (module, sys.modules.get(PACKAGE)):
        if getattr(holder, MEETS, None) is meets:
            setattr(holder, MEETS, init_process_group)
