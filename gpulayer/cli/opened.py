"""The plane that the environment names, open for as long as a command runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gpulayer import plane, settings


@contextmanager
def opened() -> Iterator[plane.Plane]:
    """Open the plane of GPULAYER_URL, or else of GPULAYER_HOME."""
    found = settings.read()
    the_plane = plane.open(found.url or found.home, process="cli")
    try:
        yield the_plane
    finally:
        the_plane.close()
