"""Which files of a source folder travel: the default drops, and patterns written as in ``.gitignore``."""

from __future__ import annotations

import os
from dataclasses import dataclass

from pathspec import GitIgnoreSpec

IGNORE_FILE = ".gpulayerignore"
NEVER = frozenset({".git"})
CACHES = frozenset(
    {
        "__pycache__",
        ".mypy_cache",
        ".pytest_cache",
        ".ruff_cache",
        ".hypothesis",
        ".ipynb_checkpoints",
        ".eggs",
        ".tox",
        ".nox",
        "node_modules",
        ".hg",
        ".svn",
    }
)
OUTPUTS = frozenset({"lightning_logs"})
OUTPUTS_WITHOUT_CODE = "checkpoints"
DROPPED_FILES = ("*.ckpt", "*.pyc")
"""Checkpoints and bytecode."""
SECRET_FILES = ("*.token",)
"""The tokens of a plane, which are named so in its guide: who reads a bundle must not get them, whatever a pattern says."""
ENVIRONMENT_MARKS = frozenset({"pyvenv.cfg", "conda-meta"})


def secret_rule(name: str) -> str | None:
    """Return the rule that no pattern beats, for a file of this name."""
    suffix = os.path.splitext(name)[1]
    return f"always: *{suffix} may open a plane" if f"*{suffix}" in SECRET_FILES else None


def default_rule(path: str) -> str | None:
    """Return the default drop that a path's own name falls under."""
    name = path.rstrip("/").rpartition("/")[2]
    if name in CACHES:
        return f"default: {name}/ is a cache"
    if name in OUTPUTS:
        return f"default: {name}/ holds outputs"
    suffix = os.path.splitext(name)[1]
    return f"default: *{suffix}" if f"*{suffix}" in DROPPED_FILES else None


def default_patterns() -> list[str]:
    """Return the default drops by name, as git patterns."""
    return [*(f"{name}/" for name in sorted(CACHES | OUTPUTS)), *DROPPED_FILES, *SECRET_FILES]


@dataclass(frozen=True)
class Word:
    """What a pattern file says of a path: leave it out, or (``keep``) take it along."""

    keep: bool
    rule: str


class Patterns:
    """The patterns of one file, in git's grammar: the last one that matches decides; ``base`` is the file's folder."""

    def __init__(self, text: str, name: str, base: str = "") -> None:
        self._lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
        self._spec = GitIgnoreSpec.from_lines(self._lines)
        self._name = name
        self._base = base

    def word(self, path: str) -> Word | None:
        """Return what the file says of a path (with a ``/`` at its end for a folder), None when nothing matches."""
        if not path.startswith(self._base):
            return None
        found = self._spec.check_file(path[len(self._base) :])
        if found.include is None or found.index is None:
            return None
        return Word(keep=not found.include, rule=f"{self._name}: {self._lines[found.index].strip()}")

    def may_keep_inside(self, folder: str, *, by_name_only: bool) -> bool:
        """Whether a pattern beginning with ``!`` could take along something inside ``folder`` (which ends in ``/``).

        ``by_name_only`` asks for patterns that name the folder, or a place in it, from the root on.
        """
        for head in (line[1:].strip().lstrip("/") for line in self._lines if line.startswith("!")):
            if head.startswith(folder) or folder.startswith(head.rstrip("/*") + "/"):
                return True
            if not by_name_only and ("/" not in head.rstrip("/") or "*" in head.split("/")[0]):
                return True
        return False
