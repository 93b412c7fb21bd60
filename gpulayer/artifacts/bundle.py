"""The bundle: a user's source folder as one zip, named by its SHA-256."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gpulayer.artifacts import archive, copying
from gpulayer.artifacts.archive import unpack
from gpulayer.artifacts.links import link_left_out
from gpulayer.artifacts.listing import Entry, LeftOut, Limits, Listing, list_source
from gpulayer.errors import EntrypointMissing

__all__ = ["LeftOut", "Limits", "Packed", "Row", "explain", "find_root", "link_left_out", "pack", "unpack"]

_ROOT_MARKS = (".git", "pyproject.toml")
_FORMAT = 1
_SETTLED_NS = 50_000_000
"""How old the newest change must be for a file's times to tell it from a later one."""


@dataclass(frozen=True)
class Packed:
    """A bundle. ``path`` is None when the same tree was packed before and its blob is known: nothing was written."""

    sha256: str
    size: int
    files: int
    left_out: tuple[LeftOut, ...]
    path: Path | None


@dataclass(frozen=True)
class Row:
    """What happens to one path, and the rule that says so; ``size`` is None for folders that stay as a whole."""

    path: str
    size: int | None
    rule: str
    sent: bool


def find_root(script: Path, source_dir: Path | str | None = None) -> Path:
    """Return the folder to bundle: the one named, else the nearest project above the script, else the script's own.

    A project is a folder with ``.git`` or ``pyproject.toml`` in it; the user's home folder only when the script lies in it.
    """
    folder = Path(os.path.abspath(script)).parent
    if source_dir is not None:
        root = Path(os.path.abspath(os.path.expanduser(source_dir)))
        if not root.is_dir():
            raise EntrypointMissing(f"The source folder {root} doesn't exist.", path=str(root))
        return root
    home = Path(os.path.expanduser("~"))
    for place in (folder, *folder.parents):
        if place != folder and place in (home, Path(place.anchor)):
            break
        if any(os.path.lexists(place / mark) for mark in _ROOT_MARKS):
            return place
    return folder


def pack(
    root: Path,
    to: Path,
    *,
    never: Sequence[Path] = (),
    always: Sequence[Path] = (),
    limits: Limits | None = None,
    memory: Path | None = None,
    known: Callable[[str], bool] | None = None,
) -> Packed:
    """Zip ``root`` at ``to``: the same tree gives the same bytes, on any day and machine.

    ``never`` (the home, for one) is passed over without a word; ``always`` (the script) goes in whatever the rules say.
    With a file ``memory`` to remember by, and ``known`` to ask whether a blob is there, an unchanged tree is not zipped again.
    Raises ``BundleTooLarge`` before anything large is read, and ``LinkLeavesRoot``.
    """
    started = time.time_ns()
    out = [place for place in (*never, to, memory) if place is not None]
    found = list_source(root, never=out, always=always, limits=limits or Limits())
    signature = _signature(root, found.entries)
    left_out, files = tuple(found.left_out), len(found.entries)
    if memory is not None and known is not None:
        remembered = _remembered(memory, signature)
        if remembered is not None and known(remembered[0]):
            return Packed(remembered[0], remembered[1], files, left_out, None)
    archive.write(root, found.entries, to)
    sha256 = _sha256(to)
    size = to.stat().st_size
    if memory is not None and _settled(found, started):
        _remember(memory, signature, sha256, size)
    return Packed(sha256, size, files, left_out, to)


def explain(root: Path, *, never: Sequence[Path] = (), always: Sequence[Path] = ()) -> list[Row]:
    """Say of every path what ``pack`` does with it, and why; of a folder that stays as a whole, once."""
    found = list_source(root, never=never, always=always)
    rows = [Row(entry.path, entry.status.st_size, entry.rule, True) for entry in found.entries]
    rows += [Row(f"{left.path}/" if left.dir else left.path, left.size, left.rule, False) for left in found.left_out]
    return sorted(rows, key=lambda row: row.path)


def _signature(root: Path, entries: list[Entry]) -> str:
    """Name a tree by what ``stat`` tells, without reading it."""
    digest = hashlib.sha256(f"{_FORMAT} {root}".encode())
    for entry in entries:
        status = entry.status
        fields = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_mode, entry.target)
        digest.update(repr((entry.path, fields)).encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _settled(found: Listing, now_ns: int) -> bool:
    newest = max((max(entry.status.st_mtime_ns, entry.status.st_ctime_ns) for entry in found.entries), default=0)
    return newest < now_ns - _SETTLED_NS


def _remembered(memory: Path, signature: str) -> tuple[str, int] | None:
    with suppress(OSError, ValueError, KeyError, TypeError):
        saved = json.loads(memory.read_bytes())
        if saved["signature"] == signature:
            return str(saved["sha256"]), int(saved["size"])
    return None


def _remember(memory: Path, signature: str, sha256: str, size: int) -> None:
    with suppress(OSError), copying.written_beside(memory) as file:
        copying.write_all(file, json.dumps({"signature": signature, "sha256": sha256, "size": size}).encode())


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
