"""Says to a self-hosted plane that a caller is still there, for as long as it is."""

from __future__ import annotations

import logging
import os
import socket
import threading

from gpulayer.errors import GPULayerError
from gpulayer.transport.http import Http

RENEW_S = 20.0
"""How often a caller is heard, unless a job of its gives it up sooner."""
_LAST_WORD_S = 5.0
_log = logging.getLogger(__name__)


class Presence:
    """One caller, under its ``prc-…`` id: heard from before its first job, then again and again until it leaves."""

    def __init__(self, http: Http, process_id: str, kind: str) -> None:
        self._http = http
        self._path = f"/v1/callers/{process_id}"
        self._said = {"kind": kind, "pid": os.getpid(), "host": socket.gethostname()}
        self._every_s = RENEW_S
        self._left = threading.Event()
        self._sooner = threading.Event()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    def begin(self, lease_s: float | None = None) -> None:
        """Be known to the plane from now on, and heard three times in ``lease_s`` at least."""
        with self._starting:
            if lease_s is not None and lease_s / 3 < self._every_s:
                self._every_s = lease_s / 3
                self._sooner.set()
            if self._thread is None:
                self._say()
                self._thread = threading.Thread(target=self._renew, name="gpulayer-presence", daemon=True)
                self._thread.start()

    def leave(self) -> None:
        """Say goodbye, if anything was ever said; a plane that doesn't hear it will miss us in its own time."""
        self._left.set()
        self._sooner.set()
        with self._starting:
            if self._thread is None:
                return
        if self._http.silent_s:  # who leaves because of that waits for it no longer
            return
        saying = threading.Thread(target=self._goodbye, args=(self._thread,), name="gpulayer-goodbye", daemon=True)
        saying.start()
        saying.join(_LAST_WORD_S)

    def _goodbye(self, renewing: threading.Thread) -> None:
        renewing.join()  # a renewal on its way would arrive after the goodbye
        try:
            self._http.ask("DELETE", self._path, accept=(404,))
        except GPULayerError as trouble:
            _log.warning("the plane was not told that this caller left: %s", trouble)

    def _say(self) -> None:
        self._http.ask("PUT", self._path, json=self._said)

    def _renew(self) -> None:
        while True:
            if self._sooner.wait(self._every_s):
                self._sooner.clear()
            if self._left.is_set():
                return
            try:
                self._say()
            except GPULayerError as trouble:
                if not self._left.is_set():
                    _log.warning("the plane did not hear this caller: %s", trouble)
