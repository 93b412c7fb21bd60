"""Workers that stay when the process that submitted a job ends."""

from __future__ import annotations

from gpulayer.errors import NobodyStays
from gpulayer.plane import Plane


def require(plane: Plane) -> None:
    """Refuse to leave a job to itself on a plane of this machine whose workers all end with their callers."""
    if not any(worker.info.owner is None and worker.state == "online" for worker in plane.workers()):
        raise NobodyStays("The job was to be left to itself, and no worker would be left to run it.")
