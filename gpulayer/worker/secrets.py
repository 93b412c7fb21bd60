"""A job's secrets at its worker: fetched when the task is prepared, and taken out of what is reported of it."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from gpulayer.errors import GPULayerError, PreparationFailed
from gpulayer.logs.scrub import Scrubber
from gpulayer.spec.base import Record
from gpulayer.spec.records import Order

R = TypeVar("R", bound=Record)
_WORDS = frozenset({"sentence", "message", "traceback"})
"""Fields that hold what a job said, or what was said about it."""


class Giver(Protocol):
    def secrets_of(self, job_id: str) -> dict[str, str]: ...


def fetch(order: Order, plane: Giver) -> dict[str, str]:
    """Return the values that the job names; raises ``PreparationFailed``."""
    if not order.spec.secrets:
        return {}
    try:
        return plane.secrets_of(order.job_id)
    except GPULayerError as cause:
        raise PreparationFailed(cause.sentence, next_step=cause.next_step, **cause.facts) from cause


def scrubbed(record: R, scrubber: Scrubber) -> R:
    """Return a record in whose words no secret stands."""
    if not scrubber:
        return record
    fields = {name: getattr(record, name) for name in type(record).model_fields}
    changed = {name: _scrubbed(name, value, scrubber) for name, value in fields.items()}
    return record.model_copy(update={name: value for name, value in changed.items() if value is not fields[name]})


def _scrubbed(name: str, value: Any, scrubber: Scrubber) -> Any:
    match value:
        case str() if name in _WORDS:
            return scrubber.text(value)
        case Record():
            return scrubbed(value, scrubber)
        case tuple():
            return tuple(_scrubbed(name, each, scrubber) for each in value)
    return value
