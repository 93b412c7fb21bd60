"""The plane that the settings name, open for as long as a command runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gpulayer import plane


@contextmanager
def opened() -> Iterator[plane.Plane]:
    """Open the plane at the URL that was said, or else in GPULAYER_HOME."""
    the_plane = plane.open(process="cli")
    try:
        yield the_plane
    finally:
        the_plane.close()
