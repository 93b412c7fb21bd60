"""What is due without anyone asking: deadlines of jobs, and dead processes."""

from __future__ import annotations

from gpulayer.control.engine import transitions
from gpulayer.control.server import clearing, commands
from gpulayer.control.server.home import Home
from gpulayer.control.store import jobs
from gpulayer.control.store.store import Store
from gpulayer.errors import JobNotFound


def tick(home: Home, store: Store, now: float) -> bool:
    """Do all that is due; returns whether the queue may look different now.

    Every process with the home open does this while it waits; whoever is first has done it.
    """
    moved = _deadlines(store, now)
    return clearing.clear_up(home, store, now) or moved


def _deadlines(store: Store, now: float) -> bool:
    with store.read() as db:
        due = jobs.due(db, now)
    for job_id in due:
        try:
            commands.change(store, job_id, lambda record: transitions.tick(record, now))
        except JobNotFound:  # removed meanwhile
            continue
    return bool(due)
