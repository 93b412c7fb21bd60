"""What a rank knows of the caller's run of pytest: which tests there are, and where the rank's ``tmp_path`` is.

Tests prepare files as if nobody else ran them, so each rank has a folder of its own for them, as fresh as the caller's was.
What a rank writes there in a call goes to the job's place of the caller's folder as well, and what a call left in that place
appears in the rank's.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpulayer.runtime.context import Context
from gpulayer.strategies.paths import PathMap

_PLUGIN = "gpulayer.strategies.pytest_plugin"
_VARIABLE = "PYTEST_PLUGINS"


@dataclass(frozen=True)
class RankTests:
    """``tests`` are the caller's, None where it had none yet.

    ``own`` is this rank's folder, ``shared`` the job's, ``callers`` the caller's, into which earlier jobs ``brought`` files.
    """

    tests: tuple[str, ...] | None
    own: Path
    shared: Path
    callers: Path
    brought: tuple[str, ...]

    def give(self, since: float) -> None:
        """Copy the files that this rank wrote since then to the job's place, unless there is one of that name."""
        for folder, _, names in os.walk(self.own):
            for name in names:
                file = Path(folder, name)
                target = self.shared / file.relative_to(self.own)
                with contextlib.suppress(OSError):  # it may be gone meanwhile
                    if not file.is_symlink() and file.stat().st_ctime >= since and not os.path.lexists(target):
                        target.parent.mkdir(parents=True, exist_ok=True)
                        shutil.copy2(file, target)

    def take(self, before: float) -> None:
        """Make the files of the job's place appear in this rank's: in the folders of tests that it has begun.

        Not those that came since ``before``: other ranks may write on already, between the calls.
        """
        for folder in self._begun():
            _appear(self.shared / folder.name, folder, before)

    def take_earlier(self) -> None:
        """Make the files that came home from earlier jobs appear, where the caller's are on this machine."""
        begun = {folder.name for folder in self._begun()}
        for name in self.brought:
            source, place = self.callers / name, self.own / name
            if place.relative_to(self.own).parts[0] in begun and source.exists() and not os.path.lexists(place):
                place.parent.mkdir(parents=True, exist_ok=True)
                place.symlink_to(source)

    def _begun(self) -> list[Path]:
        try:
            return [folder for folder in self.own.iterdir() if folder.is_dir() and not folder.is_symlink()]
        except OSError:  # no test has asked for a folder
            return []


def _appear(source: Path, target: Path, before: float) -> None:
    """Link files; a folder appears with the first one in it, as a test may make one after the call and stumble over it."""
    with contextlib.suppress(OSError), os.scandir(source) as entries:
        for entry in entries:
            place = target / entry.name
            if entry.is_dir(follow_symlinks=False):
                _appear(Path(entry.path), place, before)
            elif entry.stat(follow_symlinks=False).st_ctime < before and not os.path.lexists(place):
                target.mkdir(parents=True, exist_ok=True)
                place.symlink_to(entry.path)


class _Here:
    """What this process is told, and what lets its lines out of pytest's hands."""

    known: RankTests | None = None
    uncaptured: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext


def install(told: dict[str, Any], context: Context, paths: PathMap) -> PathMap:
    """Have this process's pytest load our plugin; returns the paths with this rank's folder as another name of the job's."""
    callers, shared = Path(told["tmp"]), Path(paths.to_job(told["tmp"]))
    own = Path(tempfile.gettempdir()).resolve() / f"tests-{context.rank}"
    tests = None if told["tests"] is None else tuple(told["tests"])
    _Here.known = RankTests(tests, own, shared, callers, tuple(told["brought"]))
    os.environ[_VARIABLE] = ",".join(filter(None, (os.environ.get(_VARIABLE), _PLUGIN)))
    return replace(paths, aliases=(*paths.aliases, (str(own), str(shared))))


def configure(uncaptured: Callable[[], contextlib.AbstractContextManager[Any]]) -> None:
    """Take note that pytest runs; other programs that its tests start know nothing of our plugin."""
    _Here.uncaptured = uncaptured
    left = [name for name in os.environ.pop(_VARIABLE, "").split(",") if name not in ("", _PLUGIN)]
    if left:
        os.environ[_VARIABLE] = ",".join(left)


def known() -> RankTests | None:
    """Return what this process is told, None where no pytest made the call."""
    return _Here.known


def uncaptured() -> contextlib.AbstractContextManager[Any]:
    """Let what a call prints out to the caller, where a test captures it."""
    return _Here.uncaptured()
