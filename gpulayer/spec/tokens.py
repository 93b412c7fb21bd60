"""Tokens as people ask for them and see them listed; a token's own text is shown once, when it is made."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, model_validator

from gpulayer.errors import BadRequest
from gpulayer.spec.base import Record, Spec

Role = Literal["admin", "user", "join", "worker", "task"]
MadeRole = Literal["admin", "user", "join", "task"]
"""A worker's own credential is made by joining only."""
_DURATION = re.compile(r"(\d+)([smhdw]?)\Z")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


class TokenRequest(Spec, defer_build=False):
    """A token to be made. ``subject`` is the job that a task token speaks for; without ``ttl_s`` it never expires."""

    role: MadeRole
    name: Annotated[str, Field(max_length=200)] = ""
    ttl_s: Annotated[float, Field(gt=0, le=100 * 365 * 86400)] | None = None
    single_use: bool = False
    subject: Annotated[str, Field(max_length=64)] = ""

    @model_validator(mode="after")
    def _fits_its_role(self) -> TokenRequest:
        if self.single_use and self.role != "join":
            raise BadRequest(f"A token for the role {self.role} can't be single-use.", next_step="Join tokens can.")
        if bool(self.subject) != (self.role == "task"):
            raise BadRequest("A task token, and no other, names the job it speaks for.", next_step="Set subject to its job id.")
        return self


class TokenRecord(Record):
    """A token without its text. ``worker_id`` is what the redemption of a single-use join token made."""

    id: str
    role: Role
    subject: str = ""
    name: str = ""
    created_at: float
    expires_at: float | None = None
    single_use: bool = False
    redeemed_at: float | None = None
    worker_id: str | None = None
    revoked_at: float | None = None
    last_used_at: float | None = None

    def state(self, now: float) -> Literal["live", "expired", "revoked", "used"]:
        """Say what it is good for now."""
        if self.revoked_at is not None:
            return "revoked"
        if self.expires_at is not None and self.expires_at <= now:
            return "expired"
        return "used" if self.single_use and self.redeemed_at is not None else "live"


class NewToken(TokenRecord):
    """A token just made, with its text: the only time that it is shown."""

    token: str


class JoinRequest(Spec, defer_build=False):
    """A machine's wish to be a worker; ``key_hash`` is the SHA-256 (hex) of the key that it made and keeps to itself."""

    key_hash: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    name: Annotated[str, Field(max_length=200)] = ""


class Joined(Record):
    worker_id: str


def seconds(text: str) -> float:
    """Read a duration such as ``90``, ``30m``, ``1h`` or ``7d``."""
    found = _DURATION.match(text.strip())
    if found is None or not int(found[1]):
        raise ValueError(f"{text!r} isn't a duration: write it as 90s, 30m, 1h, 7d or 2w.")
    return float(int(found[1]) * _SECONDS[found[2]])
