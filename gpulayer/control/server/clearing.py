"""Clears up after processes that ended: their workers, the tasks on those, and the jobs they had submitted."""

from __future__ import annotations

from contextlib import suppress

from sqlalchemy import Connection

from gpulayer.control.engine import losses, transitions
from gpulayer.control.engine.transitions import Step
from gpulayer.control.server import commands, locks
from gpulayer.control.server.home import Home
from gpulayer.control.store import jobs, processes, workers
from gpulayer.control.store.processes import Process
from gpulayer.control.store.store import Store
from gpulayer.errors import JobNotFound
from gpulayer.spec.records import JobRecord, Stop, TaskRecord
from gpulayer.spec.states import Reason


def clear_up(home: Home, store: Store, now: float) -> None:
    """Bury every dead process as far as it goes now.

    May run in many processes at once and be killed anywhere: a process counts as ended only when all of it is cleared.
    """
    with store.read() as db:
        listed, former = processes.unended(db), jobs.held_by_former(db)
    dead = [one for one in listed if not locks.is_held(home.process_lock(one.id))]
    for one in dead:
        lose_workers(store, one)
    for one in dead:
        bury(home, store, one, now)
    for task in _free(home, former):
        lose(store, task, _why_lost(home, store, task), now)


def lose_workers(store: Store, process: Process) -> None:
    """Take the workers that a process hosted out of the scheduler's sight."""
    with store.read() as db:
        hosted = workers.of_process(db, process.id)
    if hosted and any(each.state in workers.SERVING for each in hosted):
        with store.write() as db:
            for each in hosted:
                workers.set_state(db, each.info.id, "gone" if process.left else "lost")


def bury(home: Home, store: Store, process: Process, now: float) -> None:
    """Give up a process's tasks where nothing of them runs, and stop its jobs if it ended without a word."""
    if not process.left:
        _stop_jobs(store, process, now)
    if not _lose_tasks(home, store, process, now):
        return
    with store.write() as db:
        for each in workers.of_process(db, process.id):
            if process.left or each.info.owner is not None:  # a worker with an owner never comes back
                workers.set_state(db, each.info.id, "gone")
        processes.end(db, process.id, now)
    home.process_lock(process.id).unlink(missing_ok=True)


def _lose_tasks(home: Home, store: Store, process: Process, now: float) -> bool:
    """Lose the tasks on a dead host's workers; False while processes of any may live (their guards hold the tasks' locks)."""
    with store.read() as db:
        held = jobs.held_tasks(db, [each.info.id for each in workers.of_process(db, process.id)])
    free = _free(home, held)
    fate = losses.LOST if process.left else losses.DIED
    for task in free:
        lose(store, task, _why_lost(home, store, task), now, fate=fate)
    return len(free) == len(held)


def _free(home: Home, tasks: list[TaskRecord]) -> list[TaskRecord]:
    return [task for task in tasks if not locks.is_held(home.task_lock(task.job_id, task.attempt, task.node_rank))]


def lose(store: Store, task: TaskRecord, reason: Reason, now: float, *, fate: str = losses.LOST) -> None:
    """Note that a task is lost and that none of its processes lives, which frees its devices."""

    def decide(record: JobRecord) -> Step:
        if record.attempt != task.attempt:
            return Step(record)
        return transitions.lose_tasks(record, (task.node_rank,), reason, now, fate=fate)

    def release(db: Connection, step: Step) -> Step:
        jobs.release(db, task.job_id, task.attempt, task.node_rank)
        return step

    with suppress(JobNotFound):  # removed meanwhile
        commands.change(store, task.job_id, decide, release)


def _why_lost(home: Home, store: Store, task: TaskRecord) -> Reason:
    with store.read() as db:
        try:
            record = jobs.load(db, task.job_id)
        except JobNotFound:
            return Reason.WORKER_LOST
        owner = None if record.owner is None or record.caller_ended else processes.find(db, record.owner)
    died = owner is not None and not owner.left and not locks.is_held(home.process_lock(owner.id))
    return Reason.CALLER_AND_WORKER_GONE if died else Reason.WORKER_LOST


def _stop_jobs(store: Store, process: Process, now: float) -> None:
    """Stop the jobs that wait for a caller who died; one that was told that no call will come keeps its results."""

    def decide(record: JobRecord) -> Step:
        if record.caller_ended or record.stop is not None:
            return Step(record)
        return transitions.request_stop(record, Stop(reason=Reason.CALLER_GONE, grace_s=record.spec.grace_s, at=now), now)

    with store.read() as db:
        owned = jobs.of_owner(db, process.id)
    for record in owned:
        with suppress(JobNotFound):
            commands.change(store, record.id, decide)
