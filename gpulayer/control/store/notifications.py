"""Word between servers on one PostgreSQL: NOTIFY in the transaction, LISTEN in a thread."""

from __future__ import annotations

import logging
import os
import secrets
import select
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import psycopg
from sqlalchemy import Connection, text

from gpulayer.control.store import touched
from gpulayer.control.store.database import Listener

CHANNEL = "gpulayer"
PAYLOAD = 7900
"""PostgreSQL takes less than 8000 bytes at a time."""
AT_MOST = 8
"""More payloads than these are told as "anything"."""
PAUSES_S = (0.05, 0.2, 1.0)
"""Between attempts to listen again; the last one goes on."""

_log = logging.getLogger(__name__)
Raw = psycopg.Connection[Any]


class Notifications:
    """What transactions touch, told to all servers of a database and heard from the others."""

    def __init__(self, connect: Callable[[], Raw]) -> None:
        self._connect = connect
        self._sender = secrets.token_hex(4)
        self._listeners: list[Listener] = []
        self._thread: threading.Thread | None = None
        self._awake, self._wake = os.pipe()
        self._closed = threading.Event()

    def send(self, db: Connection, names: Iterable[str]) -> None:
        """Tell the others at the commit; they hear it only if the transaction is."""
        for payload in payloads(self._sender, sorted(names)):
            db.execute(text("SELECT pg_notify(:channel, :payload)"), {"channel": CHANNEL, "payload": payload})

    def hear(self, listener: Listener) -> None:
        self._listeners.append(listener)
        if self._thread is None:
            self._thread = threading.Thread(target=self._listen_on, name="gpulayer-listens", daemon=True)
            self._thread.start()

    def close(self) -> None:
        if self._closed.is_set():
            return
        self._closed.set()
        os.write(self._wake, b"x")
        if self._thread is not None:
            self._thread.join()
        for end in (self._awake, self._wake):
            os.close(end)

    def _listen_on(self) -> None:
        failed = 0
        while not self._closed.is_set():
            try:
                with self._connect() as raw:
                    raw.execute(f"LISTEN {CHANNEL}")
                    failed = 0
                    self._tell({touched.ANYTHING})  # nobody knows what was told while we did not listen
                    self._hear_all(raw)
            except psycopg.Error as cause:
                _log.debug("listening broke off: %s", cause)
                self._closed.wait(PAUSES_S[min(failed, len(PAUSES_S) - 1)])
                failed += 1

    def _hear_all(self, raw: Raw) -> None:
        """Return when we are closed; raises when the connection breaks."""
        while True:
            if names := set(self._heard(raw)):
                self._tell(names)
            ready, _, _ = select.select([raw.fileno(), self._awake], [], [])
            if self._awake in ready:
                return
            raw.pgconn.consume_input()

    def _heard(self, raw: Raw) -> Iterator[str]:
        while (notice := raw.pgconn.notifies()) is not None:
            sender, *names = notice.extra.decode().split(" ")
            if sender != self._sender:  # what this process wrote it told itself
                yield from names

    def _tell(self, names: set[str]) -> None:
        for listener in self._listeners:
            try:
                listener(frozenset(names))
            except Exception:
                _log.exception("a listener failed")  # the others, and what comes next, must be heard all the same


def payloads(sender: str, names: Iterable[str]) -> list[str]:
    """Put names into as many payloads as it takes, or "anything" into one where it takes too many."""
    found: list[str] = []
    for name in names:
        if found and len(found[-1].encode()) + len(name.encode()) + 1 <= PAYLOAD:
            found[-1] += f" {name}"
        else:
            found.append(f"{sender} {name}")
    return found if len(found) <= AT_MOST else [f"{sender} {touched.ANYTHING}"]
