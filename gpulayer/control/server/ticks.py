"""What is due without anyone asking: deadlines of jobs, and dead processes."""

from __future__ import annotations

from gpulayer.control.engine import transitions
from gpulayer.control.server import clearing, commands, locks
from gpulayer.control.server.home import Home
from gpulayer.control.store import jobs, processes
from gpulayer.control.store.processes import Process
from gpulayer.control.store.sqlite import Watch
from gpulayer.control.store.store import Store
from gpulayer.errors import JobNotFound


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


def past_deadlines(store: Store, now: float) -> bool:
    """Do what is due of jobs; returns whether anything was."""
    with store.read() as db:
        due = jobs.due(db, now)
    for job_id in due:
        try:
            commands.change(store, job_id, lambda record: transitions.tick(record, now))
        except JobNotFound:  # removed meanwhile
            continue
    return bool(due)
