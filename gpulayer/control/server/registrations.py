"""What a worker may say of itself from afar: everyone who lists the workers reads it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from gpulayer.errors import BadRequest
from gpulayer.spec.workers import WorkerInfo

MOST_SLOTS = 1024
_MOST_OF_A_KIND = 1024
_LONGEST = {"name": 200, "incarnation": 100}
_LONGEST_TEXT = 4096


def check(info: WorkerInfo) -> None:
    """Raise ``BadRequest`` for a registration that no worker of another machine makes."""
    if info.origin == "local":
        raise BadRequest("A worker that comes over the network is not local.")
    if not 1 <= info.slots <= MOST_SLOTS:
        raise BadRequest(f"slots is {info.slots}; a worker has 1 to {MOST_SLOTS}.")
    uuids = [device.uuid for device in info.capabilities.devices]
    if len(set(uuids)) < len(uuids):
        raise BadRequest("Two devices have the same uuid.")
    for field, value in _values(info.model_dump(), ""):
        _check(field, value)


def _values(value: Any, field: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict | list | tuple):
        yield field, value
    match value:
        case dict():
            for name, each in value.items():
                yield f"a name in {field}", name
                yield from _values(each, f"{field}.{name}" if field else name)
        case list() | tuple():
            for each in value:
                yield from _values(each, field)
        case _:
            yield field, value


def _check(field: str, value: Any) -> None:
    match value:
        case str() if len(value) > _LONGEST.get(field, _LONGEST_TEXT):
            raise BadRequest(f"{field[:200]!r} is too long.")
        case str() if any(ord(character) < 32 or 127 <= ord(character) < 160 for character in value):
            raise BadRequest(f"{field[:200]!r} holds control characters.")
        case float() if not math.isfinite(value):
            raise BadRequest(f"{field[:200]!r} is no number.")
        case dict() | list() | tuple() if len(value) > _MOST_OF_A_KIND:
            raise BadRequest(f"{field[:200]!r} holds more than {_MOST_OF_A_KIND}.")
