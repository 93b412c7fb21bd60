"""Who waits for what on a server: thousands may wait, and none of them holds a thread."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool

Found = TypeVar("Found")
Waker = Callable[[], object]

_MOST_LOOKS = 500
"""How many waiters may look again in vain within ``relook_s``."""

ANY = "*"
"""Among the topics that changed, it says that anything may have."""


class Waits:
    """Wakes waiters by topic (the id of a job or of a worker). Any thread may wake; once closed, nobody waits any more.

    ``relook_s`` is how long a waiter trusts in being woken: where other servers write to the same database, a word of theirs
    may get lost. A crowd trusts for longer, so that it doesn't look all the time.
    """

    def __init__(self, relook_s: float | None = None) -> None:
        self.closed = False
        self._relook_s = relook_s
        self._lock = threading.Lock()
        self._wakers: dict[str, set[Waker]] = defaultdict(set)
        self._count = 0

    def wake(self, topics: frozenset[str]) -> None:
        with self._lock:
            names = list(self._wakers) if ANY in topics else topics
            woken = [waker for name in names for waker in self._wakers.get(name, ())]
        for waker in woken:
            waker()

    def close(self) -> None:
        """Let everyone go with what there is."""
        self.closed = True
        self.wake(frozenset({ANY}))

    @property
    def waiting(self) -> int:
        """How many wait now."""
        return self._count

    @contextmanager
    def _listed(self, topic: str, waker: Waker) -> Iterator[None]:
        with self._lock:
            self._wakers[topic].add(waker)
            self._count += 1
        try:
            yield
        finally:
            with self._lock:
                self._count -= 1
                self._wakers[topic].discard(waker)
                if not self._wakers[topic]:
                    del self._wakers[topic]

    def wait(self, topic: str, look: Callable[[], Found | None], timeout_s: float) -> Found | None:
        """Return what ``look`` finds, looking again whenever the topic changed; None when the time is over.

        Holds this thread meanwhile.
        """
        until = time.monotonic() + timeout_s
        woken = threading.Event()
        with self._listed(topic, woken.set):
            while True:
                woken.clear()
                found = look()
                left = until - time.monotonic()
                if found is not None or left <= 0 or self.closed:
                    return found
                woken.wait(self._pause(left))

    async def wait_aside(
        self,
        topic: str,
        look: Callable[[], Found | None],
        timeout_s: float,
        hung_up: Callable[[], Coroutine[Any, Any, object]],
    ) -> Found | None:
        """Do as ``wait`` does, holding a thread only while looking; ``hung_up`` returns when nobody waits for the answer."""
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_s
        woken = asyncio.Event()

        def waker() -> None:
            with suppress(RuntimeError):  # the loop ended
                loop.call_soon_threadsafe(woken.set)

        listening: asyncio.Task[object] | None = None
        with self._listed(topic, waker):
            try:
                while True:
                    woken.clear()
                    found = await run_in_threadpool(look)
                    left = until - loop.time()
                    if found is not None or left <= 0 or self.closed:
                        return found
                    if listening is None:
                        listening = asyncio.create_task(hung_up())
                        listening.add_done_callback(lambda _: woken.set())
                    if listening.done():
                        return None
                    with suppress(TimeoutError):
                        await asyncio.wait_for(woken.wait(), self._pause(left))
                    if not woken.is_set() and loop.time() >= until:  # whoever asks again looks again
                        return None
            finally:
                if listening is not None:
                    listening.cancel()

    def _pause(self, left: float) -> float:
        if self._relook_s is None:
            return left
        return min(left, self._relook_s * max(1.0, self._count / _MOST_LOOKS))
