"""What a bundle left out, made to appear in a work folder on the machine where it lies."""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from gpulayer.artifacts.rules import CACHES, ENVIRONMENT_MARKS, NEVER
from gpulayer.errors import UnsafeArchive

_LINKS_PER_FOLDER = 2_000
_LINKED_WHOLE = frozenset({"node_modules"})
# Bytecode and tool caches describe the files beside them, and those beside the links are others.
_NOT_LINKED = (CACHES - _LINKED_WHOLE) | NEVER


def link_left_out(left_out: Iterable[Mapping[str, Any]], source_root: Path, work: Path) -> None:
    """Make each entry (``path``, ``dir``) appear in ``work`` as links into ``source_root``.

    A folder becomes a real folder whose files are links, so that what the job adds there is the job's own; environments, and
    what a folder holds beyond some thousand files, are linked as folders. What is gone meanwhile is passed over.
    """
    top = os.path.realpath(work)
    for entry in left_out:
        path = PurePosixPath(str(entry["path"]))
        if path.is_absolute() or ".." in path.parts or not path.parts:
            raise UnsafeArchive(f"The list of what was left out names {str(path)!r}.", name=str(path))
        source = source_root / path
        if _NOT_LINKED.intersection(path.parts) or path.suffix == ".pyc" or not os.path.lexists(source):
            continue
        (work / path).parent.mkdir(parents=True, exist_ok=True)
        if entry.get("dir") and source.is_dir() and not source.is_symlink():
            _open_up(source, work / path, top)
        else:
            _link(source, work / path)


def link_folder(source: Path, target: Path, work: Path) -> None:
    """Make what a folder holds appear in another one, as links; ``work`` itself is passed over if it lies below."""
    _open_up(source, target, os.path.realpath(work))


def _open_up(source: Path, target: Path, work: str) -> None:
    """Make a real folder of links, level by level, until the links run out; deeper folders are then linked whole."""
    room = _LINKS_PER_FOLDER
    waiting = deque([(source, target)])
    while waiting:
        here, there = waiting.popleft()
        holds_work = f"{work}/".startswith(f"{os.path.realpath(here)}/")
        names = _names(here, room + 1)
        if not holds_work and (here.name in _LINKED_WHOLE or ENVIRONMENT_MARKS.intersection(names) or len(names) > room):
            _link(here, there)
            continue
        there.mkdir(exist_ok=True)
        room -= len(names)
        for name in names:
            inner = here / name
            if name in _NOT_LINKED or os.path.realpath(inner) == work:
                continue
            if inner.is_dir() and not inner.is_symlink():
                waiting.append((inner, there / name))
            else:
                _link(inner, there / name)


def _names(folder: Path, most: int) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in itertools.islice(entries, max(most, 1))]
    except OSError:
        return []


def _link(source: Path, target: Path) -> None:
    if not os.path.lexists(target):
        target.symlink_to(os.path.abspath(source))
