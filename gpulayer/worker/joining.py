"""How a machine becomes a worker of a plane: at its first start by a join token, later by what it kept."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from pathlib import Path

from gpulayer.errors import Unauthorized
from gpulayer.spec.base import new_id
from gpulayer.worker import identity
from gpulayer.worker.identity import Identity

Redeem = Callable[[str, str], str]
"""Give a join token and a key's hash to the plane; returns the worker's id."""


def in_home(work_dir: Path, home: Path) -> Identity:
    """Return who this worker is in a home: whoever may open that may be its worker."""
    known = identity.load(work_dir)
    if known is not None and known.plane == str(home):
        return known
    made = Identity(plane=str(home), worker_id=new_id("wkr"))
    identity.save(work_dir, made)
    return made


def at_url(work_dir: Path, url: str, find_token: Callable[[], str | None], redeem: Redeem) -> Identity:
    """Return who this worker is at a self-hosted plane, joining first where it never did: only then a token is looked for."""
    known = identity.load(work_dir)
    if known is not None and known.plane != url:
        known = None  # its key is for another plane's ears
    if known is not None and known.worker_id:
        return known
    token = find_token()
    if token is None:
        raise Unauthorized(
            f"This machine has not joined {url} from {work_dir}.",
            next_step="Give a join token with --token-file or GPULAYER_TOKEN; an admin makes one: "
            "gpulayer tokens create --role join.",
        )
    made = known or Identity(plane=url, worker_id="", key=_new_key(token))
    identity.save(work_dir, made)  # before the token is spent: if the answer is lost, the same key asks again
    joined = made.model_copy(update={"worker_id": redeem(token, hash_of(made.key))})
    identity.save(work_dir, joined)
    return joined


def refused(refusal: Unauthorized, me: Identity, work_dir: Path) -> Unauthorized:
    """Say what to do about a key that the plane takes no more: its worker was removed, or the plane is another one."""
    return Unauthorized(
        f"{me.plane} refuses the key of {me.worker_id}, by which this machine had joined: {refusal.sentence}",
        next_step=f"To join anew, remove {identity.path(work_dir)} and start with a new join token; an admin makes one: "
        "gpulayer tokens create --role join.",
        **refusal.facts,
    )


def hash_of(key: str) -> str:
    """Return what the plane keeps of a key; the fingerprint after the dot is for us alone."""
    return hashlib.sha256(key.partition(".")[0].encode()).hexdigest()


def _new_key(token: str) -> str:
    """Make a key; where the token names the plane's certificate, the key goes on doing so."""
    _, dot, fingerprint = token.partition(".")
    return f"glt_{secrets.token_urlsafe(32)}{dot}{fingerprint}"
