"""Secrets under their names, sealed: this floor never sees a value."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, delete, select

from gpulayer.control.store.replace import replace
from gpulayer.control.store.tables import secrets
from gpulayer.errors import SecretNotFound


def put(db: Connection, name: str, sealed: bytes, now: float) -> None:
    """Store a secret, in the place of an older one of that name."""
    replace(db, secrets, {"name": name}, {"sealed": sealed, "updated_at": now}, first={"created_at": now})


def names(db: Connection) -> list[str]:
    return list(db.execute(select(secrets.c.name).order_by(secrets.c.name)).scalars())


def remove(db: Connection, name: str) -> None:
    if not db.execute(delete(secrets).where(secrets.c.name == name)).rowcount:
        raise _missing([name])


def must_exist(db: Connection, wanted: Collection[str]) -> None:
    """Raise ``SecretNotFound`` with the names that are not there."""
    if wanted:
        _found(db, wanted)


def sealed(db: Connection, wanted: Collection[str]) -> dict[str, bytes]:
    """Return sealed values by their names; raises ``SecretNotFound``."""
    return _found(db, wanted) if wanted else {}


def _found(db: Connection, wanted: Collection[str]) -> dict[str, bytes]:
    rows = db.execute(select(secrets.c.name, secrets.c.sealed).where(secrets.c.name.in_(set(wanted))))
    found = {str(row.name): bytes(row.sealed) for row in rows}
    if missing := sorted(set(wanted) - set(found)):
        raise _missing(missing)
    return found


def _missing(wanted: list[str]) -> SecretNotFound:
    what = f"secret {wanted[0]}" if len(wanted) == 1 else f"secrets {', '.join(wanted)}"
    return SecretNotFound(f"There is no {what}.", names=wanted)
