"""How many logs one asker may read at once: a reader that does not read keeps what it was sent next in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from gpulayer.errors import PlaneBusy

MOST = 64


class Readers:
    """Counts those that read now. For one thread."""

    def __init__(self) -> None:
        self._now: Counter[str] = Counter()

    @contextmanager
    def one_more(self, asker: str) -> Iterator[None]:
        """Raise ``PlaneBusy`` where the asker reads as many as it may."""
        if self._now[asker] >= MOST:
            raise PlaneBusy(f"Its token reads {MOST} logs at once already.", status=429)
        self._now[asker] += 1
        try:
            yield
        finally:
            self._now[asker] -= 1
            if not self._now[asker]:
                del self._now[asker]
