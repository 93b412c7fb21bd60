"""Who speaks: tokens made, shown once, checked, revoked; and what the speaker may do (``control.engine.rights``)."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from gpulayer.control.engine import rights
from gpulayer.control.engine.rights import Action, Whose
from gpulayer.control.server import journal, known_tokens
from gpulayer.control.store import holdings, jobs, tokens, workers
from gpulayer.control.store.store import Store
from gpulayer.control.store.tokens import Kept
from gpulayer.errors import Forbidden, HomeError, Unauthorized, WorkerRemoved
from gpulayer.spec.base import new_id
from gpulayer.spec.tokens import NewToken, Role, TokenRecord, TokenRequest

REPEAT_S = 600.0
"""How long a lost answer to a redemption may be asked for again, with the same key."""
_NOTE_USE_S = 30.0
"""So old may be what is known of a token's last use, and older by ``known_tokens.CACHE_S``: each note is a transaction."""
_TEXT = re.compile(r"(?P<token>[A-Za-z0-9_-]{32,200})(?P<fingerprint>\.[0-9a-f]{64})?\Z")
_PREFIX = {"join": "glj_"}


@dataclass(frozen=True)
class Principal:
    """Who asks. ``subject`` is the worker or the job that the token speaks for, empty for people."""

    role: Role
    subject: str
    token_id: str

    def require(
        self,
        store: Store,
        action: Action,
        *,
        worker_id: str | None = None,
        job_id: str | None = None,
        tasks: Iterable[tuple[int, int]] = (),
        sha256: str = "",
    ) -> None:
        """Raise ``Forbidden`` unless this may be done: as a worker, to a job and its tasks (attempt, node rank), to a blob."""
        match rights.extent(self.role, action):
            case Whose.ANY:
                allowed = True
            case Whose.OWN_WORKER:
                allowed = worker_id == self.subject
            case Whose.WORKED | Whose.WORKING as whose:
                allowed = worker_id in (None, self.subject) and self._works(store, job_id or "", tasks, whose is Whose.WORKING)
            case Whose.OWN_JOB:
                allowed = self._owns(store, job_id, sha256)
            case _:
                allowed = False
        if not allowed:
            raise Forbidden(f"A token for the role {self.role} may not {action.value} here.", role=self.role)

    def _works(self, store: Store, job_id: str, tasks: Iterable[tuple[int, int]], living: bool) -> bool:
        with store.read() as db:
            mine = holdings.has_task(db, self.subject, job_id, living=living)
            return mine and holdings.has_tasks(db, self.subject, job_id, tasks)

    def _owns(self, store: Store, job_id: str | None, sha256: str) -> bool:
        if job_id is not None:
            return job_id == self.subject
        with store.read() as db:
            return holdings.has_blob(db, self.subject, sha256)


def bearer_of(header: str | None) -> str:
    """Return the token in an Authorization header."""
    scheme, _, token = (header or "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise Unauthorized("This plane asks for a token.", next_step="Send it as `Authorization: Bearer <token>`.")
    return token.strip(" ")


def authenticate(store: Store, bearer: str | None, now: float) -> Principal:
    """Return who holds a token; raises ``Unauthorized`` for one that is unknown, mangled, expired, revoked or used up."""
    hash = _hash_of(bearer)
    known = known_tokens.of(store)
    kept, generation = known.get(hash), known.generation
    if kept is None:
        kept = _look_up(store, hash)
        known.keep(kept, generation)
        _note_use(store, kept.record, now)
    return _principal(kept, now)


def remembered(store: Store, bearer: str | None, now: float) -> Principal | None:
    """Answer as ``authenticate`` where that needs no database; None where it does."""
    kept = known_tokens.of(store).get(_hash_of(bearer))
    return None if kept is None else _principal(kept, now)


def _principal(kept: Kept, now: float) -> Principal:
    _must_live(kept.record, now)
    return Principal(kept.record.role, kept.record.subject, kept.record.id)


def recognise(store: Store, bearer: str | None) -> None:
    """Raise ``Unauthorized`` for what never was a token of this plane, before anything else that it asks is looked at."""
    _look_up(store, _hash_of(bearer))


def create(store: Store, request: TokenRequest, now: float, *, fingerprint: str = "") -> NewToken:
    """Make a token. ``fingerprint`` is that of a certificate that nobody else vouches for: its holder can check by it."""
    token = _PREFIX.get(request.role, "glt_") + secrets.token_urlsafe(32)
    record = TokenRecord(
        id=new_id("tok"),
        created_at=now,
        expires_at=None if request.ttl_s is None else now + request.ttl_s,
        **request.model_dump(exclude={"ttl_s"}),
    )
    with store.write() as db:
        if request.subject:
            jobs.must_exist(db, request.subject)
        tokens.add(db, record, _sha256(token))
    journal.tell("token created", token_id=record.id, role=record.role, name=record.name, expires_at=record.expires_at)
    text = f"{token}.{fingerprint}" if fingerprint else token
    return NewToken(token=text, **record.model_dump())


def revoke(store: Store, token_id: str, now: float) -> None:
    """Make a token good for nothing from now on, on this server at once."""
    with store.write() as db:
        token_id = tokens.full_id(db, token_id)
        tokens.revoke(db, token_id, now)
    known_tokens.of(store).forget()
    journal.tell("token revoked", token_id=token_id)


def listed(store: Store) -> list[TokenRecord]:
    """Return all tokens, without their texts."""
    with store.read() as db:
        return tokens.all_in(db)


def redeem(store: Store, bearer: str | None, key_hash: str, name: str, now: float) -> str:
    """Let a machine join by a join token; returns the id of its worker, whose credential is the key with ``key_hash``.

    The same token and key may ask again for ``REPEAT_S`` and hear the same: a lost answer burns nothing. Nor does a name
    that is taken.
    """
    hash = _hash_of(bearer)
    role = _look_up(store, hash).record.role  # a made-up token must not hold up those who write
    if role != "join":
        raise Forbidden(f"A token for the role {role} may not {Action.JOIN.value}.", role=role)
    with store.write() as db:
        join = tokens.by_hash(db, hash, to_change=True)
        assert join is not None
        known = tokens.by_hash(db, key_hash)
        if known is not None:
            return _again(join, known, key_hash, now)
        _must_live(join.record, now)
        if name:
            workers.must_be_the_only(db, name)
        worker_id = new_id("wkr")
        record = TokenRecord(id=new_id("tok"), role="worker", subject=worker_id, name=name, created_at=now)
        tokens.add(db, record, key_hash)
        tokens.redeem(db, join.record.id, key_hash, worker_id, now)
    known_tokens.of(store).forget()
    journal.tell("worker joined", worker_id=worker_id, name=name, token_id=join.record.id)
    return worker_id


def _again(join: Kept, known: Kept, key_hash: str, now: float) -> str:
    """Answer for a key that has joined: as before, if that was just now, and by this token if it serves only once."""
    spent_on_another = join.record.single_use and not hmac.compare_digest(join.key_hash or "", key_hash)
    revoked = join.record.revoked_at is not None or known.record.revoked_at is not None
    if known.record.role != "worker" or spent_on_another or revoked or now > known.record.created_at + REPEAT_S:
        raise Unauthorized("This token or this key was used already.", next_step=_JOIN_ANEW)
    return known.record.subject


_JOIN_ANEW = "Make a new join token with `gpulayer tokens create --role join`."


def _hash_of(bearer: str | None) -> str:
    found = _TEXT.match(bearer) if bearer else None
    if found is None:
        raise Unauthorized("This plane asks for a token." if not bearer else "This is no token of this plane.")
    return _sha256(found["token"])


def _sha256(token: str) -> str:
    return hashlib.sha256(token.encode("ascii")).hexdigest()


def _look_up(store: Store, hash: str) -> Kept:
    with store.read() as db:
        kept = tokens.by_hash(db, hash)
    if kept is None or not hmac.compare_digest(kept.hash, hash):
        raise Unauthorized("This is no token of this plane.")
    return kept


_WHY: dict[Literal["expired", "revoked", "used"], str] = {
    "expired": "This token has expired.",
    "revoked": "This token was revoked.",
    "used": "This token serves one worker, which has joined.",
}


def _must_live(record: TokenRecord, now: float) -> None:
    state = record.state(now)
    if state == "revoked" and record.role == "worker":
        raise WorkerRemoved("This worker was removed from the plane by an admin.", token_id=record.id)
    if state != "live":
        raise Unauthorized(_WHY[state], next_step=_JOIN_ANEW if record.role == "join" else None, token_id=record.id)


def _note_use(store: Store, record: TokenRecord, now: float) -> None:
    """Note at times when a token was last used (a worker is noted as it is heard); a full disk keeps nobody out."""
    if record.role == "worker" or record.state(now) != "live":
        return
    if record.last_used_at is None or not record.last_used_at <= now < record.last_used_at + _NOTE_USE_S:
        with suppress(HomeError), store.write() as db:
            tokens.used(db, record.id, now)
