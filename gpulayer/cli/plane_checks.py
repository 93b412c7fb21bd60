"""What ``gpulayer doctor`` checks of a self-hosted plane."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit

from gpulayer import plane, settings
from gpulayer.cli.opened import opened
from gpulayer.errors import Forbidden, Unauthorized

SLOW_S, FAR_S = 2.0, 5.0
_GOOD_FOR = {
    "admin": "everything",
    "user": "jobs and their files",
    "worker": "being that one worker",
    "task": "the files of its own job",
    "join": "`gpulayer worker start`",
}


class Trouble(Exception):
    """A check's answer is no, and this is why."""


def reached() -> str:
    """Ask what anyone may ask, or as much of it as the token lets us."""
    started = time.monotonic()
    said = _about()
    took = time.monotonic() - started
    if took > SLOW_S:
        raise Trouble(f"{settings.read().url} took {took:.1f} s to answer.")
    other = said.get("version")
    ours = version("gpulayer")
    more = "" if other in (None, ours) else f"; it runs gpulayer {other}, this is {ours}"
    return f"{settings.read().url} answered in {took * 1000:.0f} ms{more}"


def certificate() -> str:
    """Say who vouches for the plane; that it does was proven by the answer."""
    found = settings.read()
    if urlsplit(found.url or "").scheme != "https":
        return "none: plain HTTP, which others on the way can read"
    _about()
    if found.ca_cert is not None:
        return f"vouched for by {found.ca_cert}"
    pinned = "." in (plane.token_of(found) or "")
    return "the one that the token names" if pinned else "vouched for by an authority that this machine trusts"


def token() -> str:
    role = str(_asked()["role"])
    return f"its role is {role}: good for {_GOOD_FOR.get(role, role)}"


def clock() -> str:
    """Leases don't depend on it, but times in lists and logs do."""
    asked = time.time()
    said = _about().get("now")
    if said is None:
        return "not told to this token"
    apart = float(said) - (asked + time.time()) / 2
    if abs(apart) > FAR_S:
        raise Trouble(f"the plane's clock is {abs(apart):.0f} s {'ahead' if apart > 0 else 'behind'}; let both follow NTP.")
    return f"{abs(apart) * 1000:.0f} ms apart"


def _about() -> dict[str, Any]:
    """Return what the plane says of itself; nothing where it doesn't know our token, which is a check of its own."""
    try:
        return _asked()
    except Unauthorized:
        return {}


def _asked() -> dict[str, Any]:
    with opened() as found:
        try:
            return dict(found.about())  # type: ignore[attr-defined]  # a home has no such question
        except Forbidden as refusal:
            if refusal.facts.get("role") != "join":
                raise
            return {"role": "join"}


CHECKS: dict[str, Callable[[], str]] = {
    "plane": reached,
    "certificate": certificate,
    "token": token,
    "clock": clock,
}
