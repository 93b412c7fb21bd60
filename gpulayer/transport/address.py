"""Where a plane answers, and what may be sent there."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path

import httpx

from gpulayer.errors import InsecureUrl, PlaneUnreachable


@dataclass(frozen=True)
class Address:
    """Where a plane answers and what it is told. ``token`` may end in ``.`` and the fingerprint of its certificate.

    ``insecure`` lets a token go over plain http to another machine.
    """

    url: str
    token: str | None = None
    ca_cert: Path | None = None
    insecure: bool = False

    @property
    def bearer(self) -> str | None:
        return self.token and self.token.partition(".")[0]

    @property
    def fingerprint(self) -> str | None:
        return (self.token or "").partition(".")[2].lower() or None

    def checked(self) -> httpx.URL:
        """Return the base URL, unless it names no plane or a token would be readable on the way."""
        try:
            url = httpx.URL(self.url.rstrip("/"))
        except httpx.InvalidURL as cause:
            raise PlaneUnreachable(f"{self.url!r} is no URL: {cause}.") from cause
        if url.scheme not in ("http", "https") or not url.host:
            raise PlaneUnreachable(f"{self.url!r} is no address of a plane.", next_step="Write it as https://host:port.")
        if url.userinfo:
            raise InsecureUrl("A plane's address holds no password.", next_step="Give the token with GPULAYER_TOKEN.")
        if url.scheme == "http" and self.token and not self.insecure and not is_loopback(url.host):
            raise InsecureUrl(f"A token would go to {url.host} over plain http, where others can read it.", url=str(url))
        return url


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
