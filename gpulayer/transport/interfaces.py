"""The network interfaces of this machine, asked of the C library."""

from __future__ import annotations

import ctypes
import socket
import sys
from typing import NamedTuple


class Address(NamedTuple):
    interface: str
    address: str


class _Entry(ctypes.Structure):
    pass


_Entry._fields_ = [  # see getifaddrs(3)
    ("next", ctypes.POINTER(_Entry)),
    ("name", ctypes.c_char_p),
    ("flags", ctypes.c_uint),
    ("address", ctypes.c_void_p),
]
_UP = 1
_PLACES = {socket.AF_INET: (4, 4), socket.AF_INET6: (8, 16)}
"""Where in a sockaddr of the family the address begins, and how long it is."""


def table() -> list[Address]:
    """Return all addresses of the interfaces that are up, further ones of an interface included; IPv4 first."""
    library = ctypes.CDLL(None, use_errno=True)
    first = ctypes.POINTER(_Entry)()
    if library.getifaddrs(ctypes.byref(first)) != 0:
        return []
    try:
        return sorted(_read(first), key=lambda each: ":" in each.address)
    finally:
        library.freeifaddrs(first)


def _read(entry: ctypes._Pointer[_Entry]) -> list[Address]:
    found = []
    while entry:
        here = entry.contents
        text = _text(here.address) if here.address and here.flags & _UP else None
        if text is not None:
            found.append(Address(here.name.decode().partition(":")[0], text))  # eth0:1 is a label on eth0
        entry = here.next
    return found


def _text(sockaddr: int) -> str | None:
    # Linux begins with the family in two bytes, the BSDs with a length and the family in one.
    two = ctypes.string_at(sockaddr, 2)
    family = int.from_bytes(two, sys.byteorder) if sys.platform == "linux" else two[1]
    if family not in _PLACES:
        return None
    start, length = _PLACES[socket.AddressFamily(family)]
    return socket.inet_ntop(family, ctypes.string_at(sockaddr + start, length))
