"""What a rank knows of the caller's run of pytest: which tests there are, and where the rank's ``tmp_path`` is.

Tests prepare files in their own folders, as if nobody else ran them. So the first rank of a machine works at the job's place of
the caller's folder, and each other one in a folder of its own: what it writes in a call goes to the first one's as well, and
after the call it finds there what the call left.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpulayer.runtime.context import Context
from gpulayer.strategies.paths import PathMap

_PLUGIN = "gpulayer.strategies.pytest_plugin"
_VARIABLE = "PYTEST_PLUGINS"


@dataclass(frozen=True)
class RankTests:
    """``tests`` are the caller's, None where it had none yet; ``own`` is this rank's folder, ``shared`` the machine's."""

    tests: tuple[str, ...] | None
    own: Path | None
    shared: Path | None

    def give(self, since: float) -> None:
        """Copy the files that this rank wrote since then to where the machine's are, unless there is one of that name."""
        if self.own is None or self.shared is None or self.own == self.shared:
            return
        for folder, _, names in os.walk(self.own):
            for name in names:
                file = Path(folder, name)
                target = self.shared / file.relative_to(self.own)
                with contextlib.suppress(OSError):  # it may be gone meanwhile
                    if not file.is_symlink() and file.stat().st_ctime >= since and not os.path.lexists(target):
                        target.parent.mkdir(parents=True, exist_ok=True)
                        shutil.copy2(file, target)

    def take(self, before: float) -> None:
        """Make what is older in the machine's folder appear in this rank's, as links."""
        if self.own is not None and self.shared is not None and self.own != self.shared:
            _appear(self.shared, self.own, before)


def _appear(source: Path, target: Path, before: float) -> bool:
    """Say whether anything did; a folder does with what is in it. What the first rank made after the call is not older."""
    did = False
    with contextlib.suppress(OSError), os.scandir(source) as entries:
        for entry in entries:
            old = entry.stat(follow_symlinks=False).st_ctime < before
            if entry.is_dir(follow_symlinks=False):
                if _appear(Path(entry.path), target / entry.name, before) or old:
                    (target / entry.name).mkdir(parents=True, exist_ok=True)
                    did = True
            elif old:
                target.mkdir(parents=True, exist_ok=True)
                if not os.path.lexists(target / entry.name):
                    (target / entry.name).symlink_to(entry.path)
                did = True
    return did


class _Here:
    """What this process is told, and what lets its lines out of pytest's hands."""

    known: RankTests | None = None
    uncaptured: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext


def install(told: dict[str, Any], context: Context, paths: PathMap) -> PathMap:
    """Have this process's pytest load our plugin; returns the paths with this rank's folder as another name of the job's."""
    tests, tmp = told["tests"], told["tmp"]
    own = shared = None if tmp is None else Path(paths.to_job(tmp))
    if shared is not None and context.local_rank != 0:
        own = Path(tempfile.gettempdir(), f"tests-rank{context.rank}")
        paths = PathMap(paths.root, paths.cwd, paths.work, (*paths.aliases, (str(own), str(shared))), paths.outside)
    _Here.known = RankTests(None if tests is None else tuple(tests), own, shared)
    os.environ[_VARIABLE] = ",".join(filter(None, (os.environ.get(_VARIABLE), _PLUGIN)))
    return paths


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
