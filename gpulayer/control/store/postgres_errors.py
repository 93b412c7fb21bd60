"""What PostgreSQL says, as errors of our tree."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as NoConnectionFree

from gpulayer.control.store.conflict import Conflict
from gpulayer.errors import BadRequest, DatabaseUnusable, PlaneBusy

_FIXES = {
    "3D000": "Create it first: createdb NAME.",
    "42501": "Let this user create tables there: GRANT CREATE ON SCHEMA public TO ..., or make it the database's owner.",
    "25006": "Give --database the primary: this is a standby, which takes no writes.",
    "53100": "Free some space on the database's machine.",
}
"""Next steps by SQLSTATE, for what passes by no waiting."""
_REFUSALS = {
    r'database ".*" does not exist': "3D000",
    "too many clients": "53300",
    "is starting up|is shutting down": "57P03",
}
_FIRST = ("40001", "40P01")
"""Serialization failure and deadlock: of two transactions, one had to give way."""
_BAD_TEXT = ("22001", "22021", "22P05")
_PASSING = ("08", "53", "57P", "25P03", "55P03")
"""Connections that broke or found no place, a server that stops or starts, a transaction that was broken off."""
RETRY_S = 1.0


@contextmanager
def named(place: str, *, opening: bool = False) -> Iterator[None]:
    """Name what the database at ``place`` says; while ``opening``, nothing is called passing."""
    try:
        yield
    except (DBAPIError, psycopg.Error, NoConnectionFree) as cause:
        found = _named(place, cause, opening)
        if found is None:
            raise
        raise found from cause


def _named(place: str, cause: Exception, opening: bool) -> Exception | None:
    said = cause.orig if isinstance(cause, DBAPIError) else cause
    state = getattr(said, "sqlstate", None) or _state_of_refusal(str(said))
    if state in _FIRST:
        return Conflict(str(said))
    if state in _BAD_TEXT:
        return BadRequest(f"The plane's database can't keep that text ({_line(said)}).")
    passing = state.startswith(_PASSING) if state else isinstance(said, psycopg.OperationalError | NoConnectionFree)
    passing = passing or (isinstance(cause, DBAPIError) and cause.connection_invalidated)
    if state not in _FIXES and passing and not opening:
        return PlaneBusy(f"The plane's database did not answer ({_line(said)}).", retry_after_s=RETRY_S)
    if state in _FIXES or passing or (opening and isinstance(said, psycopg.Error)):
        return DatabaseUnusable(f"{place} can't be used ({_line(said)}).", next_step=_FIXES.get(state), database=place)
    return None


def _state_of_refusal(said: str) -> str:
    """Return the SQLSTATE of a connection that was refused: libpq tells it in words alone."""
    return next((state for words, state in _REFUSALS.items() if re.search(words, said)), "")


def _line(said: object) -> str:
    """Return the first line of what was said, without its full stop."""
    return (str(said).strip().splitlines() or [type(said).__name__])[0].rstrip(".")
