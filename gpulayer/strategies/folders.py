"""Folders without a file in them, which no list of a job's files names."""

from __future__ import annotations

import os

_PASSED_OVER = frozenset({"__pycache__"})


def empty(top: str) -> list[str]:
    """Return the absolute paths of the empty folders below ``top``; links are not followed."""
    found, waiting = [], [top]
    while waiting:
        here = waiting.pop()
        try:
            with os.scandir(here) as entries:
                held = list(entries)
        except OSError:  # gone meanwhile
            continue
        waiting += [each.path for each in held if each.is_dir(follow_symlinks=False) and each.name not in _PASSED_OVER]
        if not held and here != top:
            found.append(here)
    return sorted(found)
