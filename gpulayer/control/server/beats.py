"""Chores that a server does without being asked, in a thread of their own."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from gpulayer.control.store.conflict import Conflict
from gpulayer.errors import GPULayerError

_log = logging.getLogger("gpulayer.server")

BEAT_S = 0.1
Chore = tuple[float, Callable[[], object]]
"""How often (seconds), and what."""


class Beats:
    """Runs each chore when its time has come. A chore that fails is logged and tried again: the database may be away."""

    def __init__(self, chores: dict[str, Chore]) -> None:
        self._chores = chores
        self._due = dict.fromkeys(chores, 0.0)
        self._failing: dict[str, type[Exception]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gpulayer-beats", daemon=True)

    @property
    def well(self) -> bool:
        """Whether the last run of every chore went well."""
        return not self._failing

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(BEAT_S):
            for name, (every_s, chore) in self._chores.items():
                if time.monotonic() >= self._due[name] and not self._stop.is_set():
                    self._do(name, chore)
                    self._due[name] = time.monotonic() + every_s

    def _do(self, name: str, chore: Callable[[], object]) -> None:
        try:
            chore()
        except Exception as trouble:
            self._failed(name, trouble)
        else:
            if self._failing.pop(name, None) is not None:
                _log.info("chore goes well again", extra={"facts": {"chore": name}})

    def _failed(self, name: str, trouble: Exception) -> None:
        """Say once that a chore fails and why, until it goes well again or fails for another reason."""
        kind = type(trouble)
        if self._failing.get(name) is kind:
            return
        self._failing[name] = kind
        if isinstance(trouble, GPULayerError | Conflict):
            _log.warning("chore failed", extra={"facts": {"chore": name, "why": _sentence(trouble)}})
        else:
            _log.error("chore failed", exc_info=trouble, extra={"facts": {"chore": name}})

    def close(self) -> None:
        """End after the chore that runs."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()


def _sentence(trouble: Exception) -> str:
    return trouble.sentence if isinstance(trouble, GPULayerError) else str(trouble)
