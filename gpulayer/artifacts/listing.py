"""The files of a source folder: which travel, which stay, and by which rule."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from gpulayer.artifacts.ignores import Ignores, ignores_of
from gpulayer.artifacts.rules import (
    CACHES,
    ENVIRONMENT_MARKS,
    IGNORE_FILE,
    NEVER,
    OUTPUTS_WITHOUT_CODE,
    Patterns,
    default_rule,
    secret_rule,
)
from gpulayer.errors import BundleTooLarge, LinkLeavesRoot


@dataclass(frozen=True)
class Limits:
    """How much one bundle may hold, before compression."""

    bytes: int = 200_000_000
    files: int = 50_000


@dataclass(frozen=True)
class Entry:
    """Something that travels: a file, a link (``target``, relative to its folder), or an empty folder (ends in ``/``)."""

    path: str
    rule: str
    status: os.stat_result
    target: str | None = None


@dataclass(frozen=True)
class LeftOut:
    """Something that stays, and the rule that says so; ``dir`` for a folder with all that it holds."""

    path: str
    rule: str
    dir: bool
    size: int | None = None


@dataclass
class Listing:
    """The outcome, by path."""

    entries: list[Entry] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    size: int = 0


def list_source(
    root: Path, *, never: Iterable[Path] = (), always: Iterable[Path] = (), limits: Limits | None = None
) -> Listing:
    """List ``root``; without limits (``None``) everything is listed.

    ``never`` names files and folders that neither travel nor are told of; ``always`` files that no rule leaves out. Raises
    ``BundleTooLarge`` and ``LinkLeavesRoot``.
    """
    walk = _Walk(root, never, always, limits)
    walk.folder("", ignores_of(root).inside(""), None)
    walk.check_links()
    walk.check_limits()
    walk.found.entries.sort(key=lambda entry: entry.path)
    walk.found.left_out.sort(key=lambda left: left.path)
    return walk.found


class _Walk:
    """One pass over a source folder, pruned at what stays."""

    def __init__(self, root: Path, never: Iterable[Path], always: Iterable[Path], limits: Limits | None) -> None:
        self._root = root
        self._never = {place for path in never if (place := _below(root, path))}
        self._always = {place for path in always if (place := _below(root, path))}
        self._limits = limits
        self._patterns = _own_patterns(root)
        self._leaving: list[str] = []
        self._roots = {str(root), os.path.realpath(root)}
        self.found = Listing()

    def folder(self, base: str, ignores: Ignores, inherited: str | None) -> None:
        """List one folder; what is in it stays by the ``inherited`` rule unless something speaks for it."""
        for entry in self._scan(base):
            path = base + entry.name
            if entry.name in NEVER or path in self._never:
                continue
            if not _names_travel(entry.name):
                self._leave(entry, path, "its name is not UTF-8")
            elif entry.is_dir(follow_symlinks=False):
                self._subfolder(entry, f"{path}/", ignores, inherited)
            else:
                self._file(entry, path, ignores, inherited)

    def _scan(self, base: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(self._root / base) as entries:
                return sorted(entries, key=lambda entry: entry.name)
        except PermissionError:
            if not base:
                raise
            self.found.left_out.append(LeftOut(base.rstrip("/"), "it can't be read", True))
            return []

    def _file(self, entry: os.DirEntry[str], path: str, ignores: Ignores, inherited: str | None) -> None:
        word = self._patterns.word(path)
        if path in self._always:
            self._take(entry, path, "the entry point")
        elif rule := secret_rule(entry.name):
            self._leave(entry, path, rule)
        elif word is not None:
            self._take(entry, path, word.rule) if word.keep else self._leave(entry, path, word.rule)
        elif ignores.tracked(path):
            self._take(entry, path, "tracked by git")
        elif rule := inherited or default_rule(path) or ignores.rule(path):
            self._leave(entry, path, rule)
        else:
            self._take(entry, path, "in the folder")

    def _subfolder(self, entry: os.DirEntry[str], path: str, ignores: Ignores, inherited: str | None) -> None:
        word = self._patterns.word(path)
        closed = self._environment(path) or (default_rule(path) if entry.name in CACHES else None)
        if closed and self._patterns.may_keep_inside(path, by_name_only=True):
            closed = None
        if word is not None:
            rule = closed if word.keep else word.rule
        else:
            rule = inherited or closed or self._folder_rule(path) or ignores.rule(path)
        if rule is None:
            before = len(self.found.entries), len(self.found.left_out)
            self.folder(path, ignores.inside(path), None)
            if before == (len(self.found.entries), len(self.found.left_out)):
                self._take(entry, path, "an empty folder")
            return
        spoken_for = ignores.holds_tracked(path) and (word is None or word.keep)
        if spoken_for or self._holds_always(path) or self._patterns.may_keep_inside(path, by_name_only=bool(closed)):
            self._within(path, ignores, rule)
        else:
            self.found.left_out.append(LeftOut(path.rstrip("/"), rule, True))

    def _within(self, path: str, ignores: Ignores, rule: str) -> None:
        """List a folder that stays, for what in it travels nevertheless; if nothing does, it stays as one."""
        entries, left_out = len(self.found.entries), len(self.found.left_out)
        self.folder(path, ignores.inside(path), rule)
        if len(self.found.entries) == entries:
            del self.found.left_out[left_out:]
            self.found.left_out.append(LeftOut(path.rstrip("/"), rule, True))

    def _folder_rule(self, path: str) -> str | None:
        if path.rstrip("/").rpartition("/")[2] == OUTPUTS_WITHOUT_CODE and not _holds_python(self._root / path):
            return f"default: {OUTPUTS_WITHOUT_CODE}/ without Python files"
        return default_rule(path)

    def _environment(self, path: str) -> str | None:
        for mark in ENVIRONMENT_MARKS:
            if os.path.lexists(self._root / path / mark):
                return f"default: {mark} marks a virtual environment"
        return None

    def _holds_always(self, folder: str) -> bool:
        return any(path.startswith(folder) for path in self._always)

    def _take(self, entry: os.DirEntry[str], path: str, rule: str) -> None:
        status = entry.stat(follow_symlinks=False)
        target = None
        if stat.S_ISLNK(status.st_mode):
            target = self._inside_target(path, os.readlink(entry.path))
        elif not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            return  # a socket, a pipe, a device
        elif stat.S_ISREG(status.st_mode):
            self.found.size += status.st_size
        self.found.entries.append(Entry(path, rule, status, target))
        if self._limits is not None and len(self.found.entries) > self._limits.files:
            self.check_limits()

    def _leave(self, entry: os.DirEntry[str], path: str, rule: str) -> None:
        status = entry.stat(follow_symlinks=False)
        is_dir = stat.S_ISDIR(status.st_mode)
        self.found.left_out.append(LeftOut(path.rstrip("/"), rule, is_dir, None if is_dir else status.st_size))

    def _inside_target(self, path: str, target: str) -> str:
        """Return a link's target relative to its folder, and note a link that leaves the root."""
        folder = os.path.dirname(path)
        if os.path.isabs(target):
            below = next((place for root in self._roots if (place := _lexically_below(root, target)) is not None), None)
            target = target if below is None else os.path.relpath(below or ".", folder or ".")
        inside = os.path.normpath(os.path.join(folder, target))
        if os.path.isabs(inside) or inside == ".." or inside.startswith("../"):
            self._leaving.append(f"{path} -> {target}")
        return target

    def check_links(self) -> None:
        """Refuse links that leave the source folder, by name."""
        if self._leaving:
            shown = ", ".join(self._leaving[:10])
            raise LinkLeavesRoot(f"These links lead out of {self._root}: {shown}.", links=self._leaving[:100])

    def check_limits(self) -> None:
        """Refuse what is over the limits, with the ten largest files."""
        limits = self._limits
        if limits is None or (self.found.size <= limits.bytes and len(self.found.entries) <= limits.files):
            return
        largest = sorted(self.found.entries, key=lambda entry: -entry.status.st_size)[:10]
        named = ", ".join(f"{entry.path} ({_megabytes(entry.status.st_size)})" for entry in largest)
        over = len(self.found.entries) > limits.files
        count = f"more than {limits.files:,}" if over else f"{len(self.found.entries):,}"
        raise BundleTooLarge(
            f"{self._root} has {count} files, {_megabytes(self.found.size)}{' so far' if over else ''}, to send; "
            f"the limits are {limits.files:,} files and {_megabytes(limits.bytes)}. The largest: {named}.",
            root=str(self._root),
            size=self.found.size,
            files=len(self.found.entries),
            largest=[[entry.path, entry.status.st_size] for entry in largest],
        )


def _own_patterns(root: Path) -> Patterns:
    try:
        text = (root / IGNORE_FILE).read_text("utf-8", "replace")
    except OSError:
        text = ""
    return Patterns(text, IGNORE_FILE)


def _below(root: Path, path: Path) -> str | None:
    """Return ``path`` relative to ``root``, when it lies inside, links on the way resolved."""
    return _lexically_below(os.path.realpath(root), os.path.join(os.path.realpath(path.parent), path.name)) or None


def _lexically_below(root: str, path: str) -> str | None:
    path = os.path.normpath(path)
    if path == root:
        return ""
    return path[len(root) + 1 :] if path.startswith(root.rstrip("/") + "/") else None


def _names_travel(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _holds_python(folder: Path) -> bool:
    return any(PurePosixPath(name).suffix == ".py" for _, _, names in os.walk(folder) for name in names)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
