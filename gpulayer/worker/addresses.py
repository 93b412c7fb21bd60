"""The address at which other workers reach this one, and the network interface that has it."""

from __future__ import annotations

import fnmatch
import ipaddress
import socket
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from gpulayer.errors import WorkerStartFailed
from gpulayer.transport import interfaces
from gpulayer.transport.interfaces import Address

LOOPBACK = "127.0.0.1"
_INSIDE = (
    *("lo", "lo0", "docker*", "br-*", "veth*", "virbr*", "vnet*", "podman*", "cni*", "flannel*", "cali*", "kube-*", "lxcbr*"),
    *("lxdbr*", "tun*", "tap*", "utun*", "wg*", "tailscale*", "zt*", "ifb*", "dummy*", "nerdctl*", "ovs-*"),
)
"""Interfaces whose addresses lead nowhere from other machines, or are the same on each: docker0 has 172.17.0.1 everywhere."""
_SOMEWHERE = ("192.0.2.1", "2001:db8::1")
"""Addresses of documentation: nothing is sent there, but the way out is the one towards everything unknown."""


@dataclass(frozen=True)
class Ways:
    """What decides: whether the plane's URL names this machine only, our addresses on the way to it and on the way out."""

    plane_is_here: bool
    to_plane: str | None
    out: tuple[str, ...]


def choose(ways: Ways, table: Sequence[Address]) -> str | None:
    """Return the best address to advertise; None when none of this machine's can be reached from others."""
    if ways.plane_is_here:
        return LOOPBACK
    fit = [each.address for each in table if _leads_here(each)]
    wanted = [each for each in (ways.to_plane, *ways.out) if each in fit]
    return next(iter((*wanted, *fit)), None)


def advertised(asked: str | None, url: str | None) -> str | None:
    """Return the address to advertise to the workers of the plane at ``url``; of a home (None) all are on this machine."""
    if asked is not None:
        return _checked(asked)
    if url is None:
        return LOOPBACK
    host = urlsplit(url).hostname or ""
    out = tuple(found for somewhere in _SOMEWHERE if (found := source_towards(somewhere)) is not None)
    return choose(Ways(_is_loopback(host), source_towards(host), out), interfaces.table())


def interface_of(address: str) -> str | None:
    """Name the network interface that has an address; None when it can't be found."""
    wanted = _plain(address)
    if ipaddress.ip_address(wanted).is_loopback and ":" not in wanted:
        wanted = LOOPBACK  # the whole of 127/8 is there and not listed
    return next((each.interface for each in interfaces.table() if each.address == wanted), None)


def source_towards(host: str) -> str | None:
    """Return the address that packets to a host would come from; sends none."""
    with suppress(OSError):
        for family, kind, _, _, where in socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM):
            with suppress(OSError), socket.socket(family, kind) as asking:
                asking.connect(where)
                return str(asking.getsockname()[0])
    return None


def _checked(asked: str) -> str:
    """Return an address that this machine has, or raise with those that it has."""
    with suppress(ValueError, OSError):
        plain = _plain(asked)
        with socket.socket(socket.AF_INET6 if ":" in plain else socket.AF_INET) as trying:
            trying.bind((plain, 0))
        return plain
    has = ", ".join(f"{each.address} ({each.interface})" for each in interfaces.table())
    raise WorkerStartFailed(
        f"{asked} is no address of this machine.", next_step=f"It has {has}. Give one of them with --advertise-address."
    )


def _plain(address: str) -> str:
    return str(ipaddress.ip_address(address.strip("[]")))


def _leads_here(each: Address) -> bool:
    found = ipaddress.ip_address(each.address)
    useless = found.is_loopback or found.is_link_local or found.is_unspecified or found.is_multicast
    return not useless and not _matches(each.interface, _INSIDE)


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _is_loopback(host: str) -> bool:
    """Say whether a URL's host means "this machine"; a name that /etc/hosts points at 127.0.1.1 means the machine itself."""
    if host == "localhost":
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False
