"""What is due without anyone asking: deadlines of jobs, and dead processes."""

from __future__ import annotations

import math
from contextlib import suppress

from gpulayer.control.engine import transitions
from gpulayer.control.engine.transitions import Step
from gpulayer.control.server import clearing, commands, locks
from gpulayer.control.server.home import Home
from gpulayer.control.store import jobs, processes
from gpulayer.control.store.processes import Process
from gpulayer.control.store.sqlite import Watch
from gpulayer.control.store.store import Store
from gpulayer.errors import JobNotFound
from gpulayer.spec.records import JobRecord


class Ticks:
    """Does what is due. Every process with the home open does so while it waits; whoever is first has done it.

    Asks the database only after a change, and otherwise nothing but the clock and the lock files.
    """

    def __init__(self, home: Home, store: Store, watch: Watch) -> None:
        self._home = home
        self._store = store
        self._watch = watch
        self._look_again = True
        self._listed: list[Process] = []
        self._deadline: float | None = None
        self._former = False

    def run(self, now: float) -> bool:
        """Do all that is due; returns whether the queue may look different now."""
        if self._watch.changed() or self._look_again:
            self._look()
        due = self._deadline is not None and self._deadline <= now
        dead = not all(locks.is_held(self._home.process_lock(one.id)) for one in self._listed)
        if not (due or dead or self._former):
            return False
        self._look_again = True
        if due:
            past_deadlines(self._store, now)
        if dead or self._former:
            clearing.clear_up(self._home, self._store, now)
        return True

    def _look(self) -> None:
        with self._store.read() as db:
            self._listed = processes.unended(db)
            self._deadline = jobs.first_deadline(db)
            self._former = bool(jobs.held_by_former(db))
        self._look_again = False

    def close(self) -> None:
        self._watch.close()


def past_deadlines(store: Store, now: float, hearing_since: float = -math.inf) -> bool:
    """Do what is due of jobs; returns whether anything moved.

    ``hearing_since`` is since when a server could be spoken to. In a home whoever owes a word writes it down without help, so
    there has been no time in which it could not.
    """
    with store.read() as db:
        due = jobs.due(db, now)
    moved = [_past_deadlines_of(store, job_id, now, hearing_since) for job_id in due]
    return any(moved)


def _past_deadlines_of(store: Store, job_id: str, now: float, hearing_since: float) -> bool:
    moved = False

    def decide(record: JobRecord) -> Step:
        nonlocal moved
        step = transitions.tick(record, now, hearing_since)
        moved = step.record != record
        return step

    with suppress(JobNotFound):  # removed meanwhile
        commands.change(store, job_id, decide)
    return moved
