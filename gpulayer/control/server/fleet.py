"""Use cases on workers: they come, are told to finish, and go."""

from __future__ import annotations

from gpulayer.control.engine import losses
from gpulayer.control.server import clearing, known_tokens
from gpulayer.control.store import jobs, tokens, workers
from gpulayer.control.store.store import Store
from gpulayer.spec.records import WorkerRecord
from gpulayer.spec.states import Reason
from gpulayer.spec.workers import WorkerInfo

RENEW_S = 20.0


def register(store: Store, info: WorkerInfo, now: float) -> WorkerRecord:
    """Add a worker to the registry; a newer incarnation fences the older. Raises ``NameTaken``."""
    with store.write() as db:
        if info.owner is None:  # a caller's own are spoken of by nobody else
            workers.must_be_the_only(db, info.name, info.id)
        workers.register(db, info, now)
        return workers.load(db, info.id)


def renew(store: Store, worker_id: str, now: float) -> None:
    """Note that a worker was heard, unless that was noted a moment ago: each note wakes everyone who waits."""
    with store.read() as db:
        standing = workers.standing(db, worker_id)
    if standing is not None and not standing.heard_at <= now < standing.heard_at + RENEW_S:
        with store.write() as db:
            workers.heard(db, worker_id, now)


def revive(store: Store, worker_id: str) -> None:
    """Let a worker that was given up for lost serve again, now that it is heard."""
    with store.write() as db:
        workers.revive(db, worker_id)


def drain(store: Store, worker_id: str) -> None:
    """Give a worker no further tasks; it leaves when it has none."""
    with store.write() as db:
        workers.set_state(db, workers.full_id(db, worker_id), "draining")


def unregister(store: Store, worker_id: str) -> None:
    """A worker that goes by itself, with nothing left running."""
    with store.write() as db:
        workers.set_state(db, worker_id, "gone")


def remove(store: Store, worker_id: str, now: float) -> None:
    """Give up a worker for someone who knows that nothing of it runs: its tasks are lost and its devices free.

    The key by which it joined a self-hosted plane goes with it.
    """
    with store.write() as db:
        worker_id = workers.full_id(db, worker_id)
        tokens.revoke_of_worker(db, worker_id, now)
        workers.forget(db, worker_id)
        held = jobs.held_tasks(db, [worker_id])
    known_tokens.of(store).forget()
    for task in held:
        clearing.lose(store, task, Reason.WORKER_LOST, now, fate=losses.REMOVED)
