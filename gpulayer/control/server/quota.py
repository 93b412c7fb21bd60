"""How much of a job's log is kept: a program that prints without end must not fill the plane's disk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from gpulayer.control.store import log_chunks
from gpulayer.errors import LogFull
from gpulayer.spec.logs import LogLine

MARK = "gpulayer: this job's log is full"


class Quota(NamedTuple):
    """Of one job: lines, and bytes as they are stored (compressed)."""

    lines: int = 10_000_000
    bytes: int = 1024**3


def within(db: Connection, job_id: str, lines: Sequence[LogLine], quota: Quota) -> Sequence[LogLine]:
    """Return what of ``lines`` is to be stored: what there is room for, then a line that says so, then nothing."""
    log_chunks.in_turn(db, job_id)
    room = 0 if log_chunks.stored_bytes(db, job_id) >= quota.bytes else quota.lines - log_chunks.stored_count(db, job_id)
    if len(lines) <= room:
        return lines
    newest = log_chunks.newest_line(db, job_id)
    if newest is not None and newest.text.startswith(MARK):
        return ()
    kept, first_dropped = lines[: max(0, room)], lines[max(0, room)]
    said = f"{MARK} ({quota.lines:,} lines or {quota.bytes / 1e9:,.2f} GB); what it prints from here on is not kept."
    return [*kept, first_dropped.model_copy(update={"text": said})]


def full(job_id: str) -> LogFull:
    return LogFull(f"The log of {job_id} is full.", job_id=job_id)
