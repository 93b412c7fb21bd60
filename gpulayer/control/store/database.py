"""What a kind of database answers in its own way; the rest of the store is the same on all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Protocol

from sqlalchemy import Connection

Listener = Callable[[frozenset[str]], None]


class Database(Protocol):
    """An open database, created or upgraded as needed."""

    one_writer: bool
    """Whether it takes one write transaction after the other: then the threads of a process needn't meet in it."""

    def __str__(self) -> str:
        """Say which it is, for people and without its password."""

    def connect(self, touched: set[str] | None) -> Connection:
        """Open a connection to read, or to write where ``touched`` is given, which becomes its ``touched.OPTION``."""

    def errors_named(self) -> AbstractContextManager[None]:
        """Turn what the database says into errors of our tree."""

    def refuse_newer(self, db: Connection) -> None:
        """Raise, in a write transaction, when a newer program has upgraded the schema."""

    def tell(self, db: Connection, names: Iterable[str]) -> None:
        """Let other processes hear at the commit what it touched, if there is a way."""

    def hear(self, listener: Listener) -> None:
        """Call ``listener`` with what other processes touched, if there is a way."""

    def now(self) -> float:
        """Return the time of the clock that all processes of this plane go by."""

    def alone(self, name: str) -> AbstractContextManager[None]:
        """Hold the plane's mutex of that name against other servers, if there may be any."""

    def close(self) -> None: ...
