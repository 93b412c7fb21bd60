"""Where a worker works: its plane, its folders, its identity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpulayer.plane import Plane
from gpulayer.spec.workers import WorkerInfo


@dataclass(frozen=True)
class Site:
    """What all tasks of a worker share.

    ``home`` holds the folders of its tasks. ``shared`` is where the workers of this machine that may meet in one job find each
    other's locks and the work folders they share: the same path on all machines, or the home of an embedded plane.
    ``environ`` is what the host was started with. ``leased`` says that the plane knows only by the clock whether we live.
    """

    plane: Plane
    home: Path
    shared: Path
    me: WorkerInfo
    environ: Mapping[str, str]
    leased: bool = False
