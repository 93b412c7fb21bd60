"""Whose path is whose: the caller's files and their places in a job's work folder."""

from __future__ import annotations

import os
from dataclasses import dataclass

_SCHEME = "file://"
_ELSEWHERE = "abs"


@dataclass(frozen=True)
class PathMap:
    """Translates absolute paths between the caller and the job; pure, and the same on every rank.

    ``root`` and ``cwd`` are the caller's (``Calls.root``, ``Calls.cwd``), ``work`` is the job's work folder: all absolute.
    A path below ``root`` is the same path below ``work``; any other ``/x/y`` is ``work/abs/x/y``. Give ``aliases`` for other
    spellings of the same folders (a realpath): (spelling, folder) pairs that are tried first. ``outside`` names folders
    elsewhere whose paths are translated in texts as well (a ``dirpath`` that isn't below the root).
    """

    root: str
    cwd: str
    work: str
    aliases: tuple[tuple[str, str], ...] = ()
    outside: tuple[str, ...] = ()

    def to_job(self, path: str) -> str:
        """Return where a caller's absolute path lies in the job; relative paths and URLs come back untouched."""
        if path.startswith(_SCHEME):
            return _SCHEME + self.to_job(path[len(_SCHEME) :])
        path = self._straight(path)
        if not os.path.isabs(path) or below(path, self.work) is not None:
            return path
        inside = below(path, self.root)
        if inside is not None:
            return _join(self.work, inside)
        return _join(self.work, os.path.join(_ELSEWHERE, path.lstrip("/")))

    def to_caller(self, path: str) -> str:
        """Return the caller's path that a place in the work folder stands for; everything else comes back untouched."""
        if path.startswith(_SCHEME):
            return _SCHEME + self.to_caller(path[len(_SCHEME) :])
        inside = below(self._straight(path), self.work)
        if inside is None:
            return path
        if inside == _ELSEWHERE or inside.startswith(_ELSEWHERE + "/"):
            return inside[len(_ELSEWHERE) :] or "/"
        return _join(self.root, inside)

    def caller_text(self, text: str) -> str:
        """Translate any string that is a path of the job's, as found in attributes and checkpoints."""
        return self.to_caller(text) if text.startswith(("/", _SCHEME)) and "\n" not in text else text

    def job_text(self, text: str) -> str:
        """Translate any string that is a path in one of the caller's folders; others may not be paths at all."""
        if not text.startswith(("/", _SCHEME)) or "\n" in text:
            return text
        bare = self._straight(text.removeprefix(_SCHEME))
        ours = any(below(bare, folder) is not None for folder in (self.root, *self.outside))
        return self.to_job(text) if ours else text

    def job_cwd(self) -> str:
        """Return the job's working directory."""
        return self.to_job(self.cwd)

    def _straight(self, path: str) -> str:
        for spelling, folder in self.aliases:
            inside = below(path, spelling)
            if inside is not None:
                return _join(folder, inside)
        return path


def between(root: str, cwd: str, work: str) -> PathMap:
    """Make the map with the realpaths of its folders known as other spellings of them."""
    aliases = tuple(
        (real, folder) for folder in (work, root) if (real := os.path.realpath(folder)) != folder and os.path.isabs(folder)
    )
    return PathMap(root=root, cwd=cwd, work=work, aliases=aliases)


def below(path: str, folder: str) -> str | None:
    """Return ``path`` relative to ``folder`` ("" for the folder itself), or None when it doesn't lie in it."""
    folder = folder.rstrip("/")
    if path.rstrip("/") == folder:
        return ""
    return path[len(folder) + 1 :] if path.startswith(folder + "/") else None


def _join(folder: str, inside: str) -> str:
    return os.path.join(folder, inside) if inside else folder
