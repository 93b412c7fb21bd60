"""Tokens, of which only hashes are kept."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, Row, insert, select, update

from gpulayer.control.store.tables import tokens, workers
from gpulayer.errors import AmbiguousId, TokenNotFound
from gpulayer.spec.tokens import TokenRecord


class Kept(NamedTuple):
    """A token as it is kept. ``key_hash`` is of the key with which a single-use token was redeemed."""

    record: TokenRecord
    hash: str
    key_hash: str | None


def add(db: Connection, record: TokenRecord, hash: str) -> None:
    db.execute(insert(tokens).values(hash=hash, **record.model_dump()))


def by_hash(db: Connection, hash: str, *, to_change: bool = False) -> Kept | None:
    """Return the token with a hash; ``to_change`` keeps other transactions from changing it before this one ends."""
    query = select(tokens).where(tokens.c.hash == hash)
    row = db.execute(query.with_for_update() if to_change else query).first()
    return None if row is None else Kept(_record(row), row.hash, row.redeemed_key)


def redeem(db: Connection, token_id: str, key_hash: str, worker_id: str, now: float) -> None:
    """Note what a join token was last redeemed for."""
    values = {"redeemed_at": now, "redeemed_key": key_hash, "worker_id": worker_id}
    db.execute(update(tokens).where(tokens.c.id == token_id).values(**values))


def used(db: Connection, token_id: str, now: float) -> None:
    db.execute(update(tokens).where(tokens.c.id == token_id).values(last_used_at=now))


def revoke(db: Connection, token_id: str, now: float) -> None:
    """Make a token good for nothing; one that is revoked stays as it is."""
    db.execute(update(tokens).where(tokens.c.id == token_id, tokens.c.revoked_at.is_(None)).values(revoked_at=now))


def revoke_of_worker(db: Connection, worker_id: str, now: float) -> None:
    """Make the credential of a worker, which must still be registered, good for nothing."""
    where = (tokens.c.role == "worker", tokens.c.subject == worker_id, tokens.c.revoked_at.is_(None))
    heard = select(workers.c.heard_at).where(workers.c.id == worker_id).scalar_subquery()
    db.execute(update(tokens).where(*where).values(revoked_at=now, last_used_at=heard))


def full_id(db: Connection, wanted: str) -> str:
    """Return the id that ``wanted`` begins; raises ``TokenNotFound`` or ``AmbiguousId``."""
    start = "tok-" + wanted.removeprefix("tok-")
    found = list(db.execute(select(tokens.c.id).where(tokens.c.id.startswith(start, autoescape=True)).limit(9)).scalars())
    if not found or start == "tok-":
        raise TokenNotFound(f"There is no token {wanted}.", token_id=wanted)
    if len(found) > 1 and start not in found:
        raise AmbiguousId(f"{wanted} could be {', '.join(sorted(found))}.", found=sorted(found))
    return start if start in found else str(found[0])


def all_in(db: Connection) -> list[TokenRecord]:
    """Return all tokens, the oldest first; a worker uses its own whenever it is heard."""
    query = select(tokens, workers.c.heard_at).outerjoin(
        workers, (tokens.c.role == "worker") & (workers.c.id == tokens.c.subject)
    )
    rows = db.execute(query.order_by(tokens.c.created_at, tokens.c.id))
    return [_record(row) if row.heard_at is None else _used(_record(row), row.heard_at) for row in rows]


def _used(record: TokenRecord, at: float) -> TokenRecord:
    return record.model_copy(update={"last_used_at": max(at, record.last_used_at or 0.0)})


def _record(row: Row[tuple[object, ...]]) -> TokenRecord:
    return TokenRecord.model_validate(dict(row._mapping))
