"""A server's log: one JSON object a line, on stderr."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

from gpulayer.spec.events import Event

_log = logging.getLogger("gpulayer.server")
_TOLD = {"submitted": ("name", "kind_of_job"), "placed": ("workers",), "retry": ("reason",), "ended": ("state", "reason")}
"""The events of jobs that a server's log tells of, with the facts that it repeats: no words of a job's own."""


class JsonLines(logging.Formatter):
    """Writes a record as one line; a record's ``facts`` are fields beside its event."""

    def format(self, record: logging.LogRecord) -> str:
        told: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info:
            told["traceback"] = self.formatException(record.exc_info)
        return json.dumps(told, default=str)


def begin(level: str) -> None:
    """Send everything that is logged in this process to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for noisy in ("uvicorn", "uvicorn.error", "alembic", "botocore", "s3fs", "fsspec"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def tell(event: str, **facts: object) -> None:
    """Tell of something that a server did or saw."""
    _log.info(event, extra={"facts": facts})


def on_event(event: Event) -> None:
    """Tell of a job's event, if it is one that people look for."""
    if event.kind in _TOLD:
        facts = {name: event.facts.get(name) for name in _TOLD[event.kind]}
        tell(f"job {event.kind}", job_id=event.job_id, attempt=event.attempt, **facts)
