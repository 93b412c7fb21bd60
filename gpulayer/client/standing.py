"""Workers that stay when the process that submitted a job ends."""

from __future__ import annotations

from gpulayer.errors import NobodyStays
from gpulayer.plane import Plane


def require(plane: Plane, count: int) -> None:
    """Refuse to leave a job for ``count`` workers on a plane of this machine where fewer stay: the others end with callers."""
    there = sum(worker.info.owner is None and worker.state == "online" for worker in plane.workers())
    if there >= count:
        return
    raise NobodyStays(
        f"The job was to be left to itself; it needs {count} worker{'s' * (count > 1)} that stay{'s' * (count == 1)}, and "
        f"{there or 'none'} would.",
        next_step=f"Start {'them' if count > 1 else 'one'} with `gpulayer up --workers {count}`, or name a plane that has some "
        "with GPULAYER_URL.",
    )
