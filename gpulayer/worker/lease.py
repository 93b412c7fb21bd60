"""A worker's own view of its lease."""

from __future__ import annotations

import time

POLLS_A_LEASE = 3
_LATE_PARTS = 6


def clock() -> float:
    """Return seconds of a clock that also counts while the machine sleeps, and that all its processes share."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class Lease:
    """Until when the plane counts on this worker.

    It counts from the moment of asking, which the plane hears later: so it ends here before it ends there.
    """

    def __init__(self, now: float, seconds: float = 90.0) -> None:
        self._asked_at = now
        self.seconds = seconds
        self.until = now + seconds

    @property
    def poll_s(self) -> float:
        """How long a question may wait for its answer."""
        return self.seconds / POLLS_A_LEASE

    @property
    def broken(self) -> str:
        """Why ranks end with it, whether the worker sees its end or, for one that stands still, a guard does."""
        return f"Its worker was not heard from for a lease of {self.seconds:g} s."

    def renew(self, asked_at: float, seconds: float) -> None:
        """Take note of the answer to a question that was asked at ``asked_at``."""
        if asked_at < self._asked_at:
            return  # an answer that a later question's overtook
        self._asked_at = asked_at
        self.seconds = seconds
        self.until = asked_at + seconds

    def overdue(self, since: float, now: float) -> bool:
        """Whether an answer is late that should have come at ``since``: there is time enough left to ask by another way."""
        return now - since > self.seconds / _LATE_PARTS

    def passed(self, now: float) -> bool:
        return now >= self.until
