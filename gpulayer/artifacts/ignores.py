"""What git says of a folder's files: which are tracked, which are ignored, and by which pattern."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from gpulayer.artifacts.rules import Patterns

_LIST_TRACKED = ("ls-files", "-z", "-c")
_LIST_IGNORED = ("ls-files", "-z", "-o", "-i", "--exclude-standard", "--directory")
_NAME_PATTERNS = ("check-ignore", "-v", "-z", "--stdin")


class Ignores(Protocol):
    """Answers for paths relative to the source folder; those of folders end in ``/``."""

    def tracked(self, path: str) -> bool: ...

    def holds_tracked(self, folder: str) -> bool: ...

    def rule(self, path: str) -> str | None:
        """Return the pattern that ignores the path itself; what lies inside an ignored folder is not asked for."""

    def inside(self, folder: str) -> Ignores:
        """Return who answers for what lies in ``folder``."""


def ignores_of(root: Path, base: str = "") -> Ignores:
    """Ask git about the folder ``base`` of ``root``; where git can't say, read the ``.gitignore`` files without it."""
    listed = _git_lists(root / base)
    if listed is None:
        return GitignoreFiles(root, ()).inside(base)
    tracked, ignored = listed
    return GitAnswers(root, base, tracked, _patterns_of(root / base, ignored))


class GitAnswers:
    """What the git program answered for one repository, or the part of it below ``base``."""

    def __init__(self, root: Path, base: str, tracked: Iterable[str], ignored: dict[str, str]) -> None:
        self._root = root
        self._base = base
        self._tracked = {base + path for path in tracked}
        self._folders = _folders_of(self._tracked)
        self._ignored = {base + path: rule for path, rule in ignored.items()}

    def tracked(self, path: str) -> bool:
        return path in self._tracked

    def holds_tracked(self, folder: str) -> bool:
        return folder in self._folders

    def rule(self, path: str) -> str | None:
        return self._ignored.get(path)

    def inside(self, folder: str) -> Ignores:
        # A repository in a repository (a submodule, a clone) answers for itself.
        return (
            ignores_of(self._root, folder) if os.path.lexists(self._root / folder / ".git") and folder != self._base else self
        )


def _folders_of(paths: Iterable[str]) -> set[str]:
    """Return every folder above the paths, each with a ``/`` at its end."""
    found = set[str]()
    for path in paths:
        folder = path.rpartition("/")[0]
        while folder and f"{folder}/" not in found:  # those above one that is known are known
            found.add(f"{folder}/")
            folder = folder.rpartition("/")[0]
    return found


class GitignoreFiles:
    """The ``.gitignore`` files on the way from the source folder to a path, read without git: nothing counts as tracked."""

    def __init__(self, root: Path, files: tuple[Patterns, ...]) -> None:
        self._root = root
        self._files = files

    def tracked(self, path: str) -> bool:
        return False

    def holds_tracked(self, folder: str) -> bool:
        return False

    def rule(self, path: str) -> str | None:
        for file in reversed(self._files):
            if word := file.word(path):
                return None if word.keep else word.rule
        return None

    def inside(self, folder: str) -> GitignoreFiles:
        try:
            text = (self._root / folder / ".gitignore").read_text("utf-8", "replace")
        except OSError:
            return self
        return GitignoreFiles(self._root, (*self._files, Patterns(text, f"{folder}.gitignore", folder)))


def _git_lists(folder: Path) -> tuple[list[str], list[str]] | None:
    """Return tracked and ignored paths; None where there is no git, no repository, or the folder itself is ignored."""
    if not any(os.path.lexists(place / ".git") for place in (folder, *folder.parents)):
        return None
    asked = [_git(folder, *_LIST_TRACKED), _git(folder, *_LIST_IGNORED)]
    answers = [None if process is None else _answer(process) for process in asked]
    if answers[0] is None or answers[1] is None or "./" in answers[1]:
        return None
    return answers[0], answers[1]


def _patterns_of(folder: Path, ignored: list[str]) -> dict[str, str]:
    """Name the pattern of each path; a folder that only holds ignored files has none, and is left out of the answer."""
    process = _git(folder, *_NAME_PATTERNS) if ignored else None
    fields = (_answer(process, ignored) if process else None) or []
    records = zip(fields[0::4], fields[2::4], fields[3::4], strict=False)
    return {path: f"{source}: {pattern}" for source, pattern, path in records}


def _git(folder: Path, *words: str) -> subprocess.Popen[bytes] | None:
    # Variables such as GIT_DIR, which git sets for its hooks, would point it at another repository.
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    with suppress(OSError):
        return subprocess.Popen(
            ("git", *words),
            cwd=folder,
            env={**env, "GIT_OPTIONAL_LOCKS": "0"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    return None


def _answer(process: subprocess.Popen[bytes], asked: Iterable[str] = ()) -> list[str] | None:
    """Return the fields of an answer; ``check-ignore`` ends with 1 when nothing matched."""
    out, _ = process.communicate(b"".join(os.fsencode(path) + b"\0" for path in asked))
    if process.returncode not in (0, 1):
        return None
    return [os.fsdecode(field) for field in out.split(b"\0") if field]
