"""Use cases on one job: read it, let the engine decide, write it where nobody was first."""

from __future__ import annotations

from collections.abc import Callable, Collection

from sqlalchemy import Connection

from gpulayer.control.engine import lockstep, transitions
from gpulayer.control.engine.transitions import Step
from gpulayer.control.server import claims
from gpulayer.control.store import blobs, files, jobs, secrets, workers
from gpulayer.control.store.store import Store
from gpulayer.errors import ArtifactNotFound, InvalidJob, StaleReport, Unschedulable
from gpulayer.spec.base import new_id
from gpulayer.spec.calls import CallView, Go
from gpulayer.spec.files import Artifact, Blob
from gpulayer.spec.job import CommandJob, DistributedJob, FunctionJob
from gpulayer.spec.records import JobRecord, Stop
from gpulayer.spec.reports import CallStored, CheckpointAnnounced, OutputsIndexed, Report, TaskEnded
from gpulayer.spec.states import Reason

Decision = Callable[[JobRecord], Step]
Besides = Callable[[Connection, Step], Step]
"""What else a report leaves in the same transaction; it may tell of it in the step."""


def submit(
    store: Store, spec: CommandJob | FunctionJob | DistributedJob, *, owner: str | None, key: str, now: float
) -> JobRecord:
    """Queue a job, or return the one that was submitted with the same ``key``; raises ``SecretNotFound``."""
    step = transitions.submitted(JobRecord(id=new_id("job"), spec=spec, owner=owner), now)
    with store.write() as db:
        record = jobs.add(db, step.record, step.events, key=key, deadline=transitions.next_deadline(step.record))
        if record.id == step.record.id:
            secrets.must_exist(db, spec.secrets)  # else the job, whose worker would miss it, is not kept
        return record


def refuse_unschedulable(record: JobRecord) -> JobRecord:
    """Raise ``Unschedulable`` for a job that was recorded as such; else return it."""
    if record.reason is not Reason.UNSCHEDULABLE:
        return record
    raise Unschedulable(record.sentence.rstrip(".") + ".", job_id=record.id, reasons=list(record.why))


def change(store: Store, job_id: str, decide: Decision, besides: Besides | None = None) -> JobRecord:
    """Apply a decision to a job; when another process wrote it meanwhile, decide anew on what it wrote."""
    with store.turn(job_id):
        while True:
            with store.read() as db:
                old = jobs.load(db, job_id)
            step = decide(old)
            if step.record == old and besides is None:
                return old
            try:
                with store.write() as db:
                    return _write(db, old, besides(db, step) if besides else step)
            except jobs.Conflict:
                continue


def _write(db: Connection, old: JobRecord, step: Step) -> JobRecord:
    if step.record == old:
        jobs.must_exist(db, old.id)  # removed meanwhile: then what was written besides must not stay
        return old
    return jobs.save(db, old, step.record, step.events, deadline=transitions.next_deadline(step.record))


def cancel(store: Store, job_id: str, reason: Reason, kill: bool, now: float) -> JobRecord:
    def decide(record: JobRecord) -> Step:
        wish = Stop(reason=reason, grace_s=record.spec.grace_s, kill=kill, at=now)
        return transitions.request_stop(record, wish, now)

    return change(store, job_id, decide)


def go(store: Store, job_id: str, go: Go, now: float) -> CallView:
    record = change(store, job_id, lambda record: lockstep.go(record, go, now))
    return next((view for view in record.calls if view.call == go.call), CallView(call=go.call))


def send_state(store: Store, job_id: str, call: int, state: Blob, now: float) -> None:
    change(store, job_id, lambda record: lockstep.send_state(record, call, state, now))


def farewell(store: Store, job_id: str, now: float) -> JobRecord:
    return change(store, job_id, lambda record: lockstep.farewell(record, now))


def report(store: Store, report: Report, now: float) -> bool:
    """Take a worker's report; returns whether the queue may look different now."""
    with store.read() as db:
        standing = workers.standing(db, report.worker_id)
    if standing is None or (report.incarnation and standing.incarnation not in ("", report.incarnation)):
        raise StaleReport(f"{report.worker_id} was removed or registered anew; this report is of the older.")
    claims.check_task(report)
    claims.check_files(report)

    def decide(record: JobRecord) -> Step:
        claims.check_rank(record, report)
        return transitions.advance(record, report, now)

    record = change(store, report.job_id, decide, _besides(report, now))
    return isinstance(report, TaskEnded) or record.state.terminal


def _besides(report: Report, now: float) -> Besides | None:
    def manifest(db: Connection, step: Step) -> Step:
        assert isinstance(report, CallStored | OutputsIndexed)
        claims.check_stored(db, report.manifest)
        files.keep_manifest(db, report.manifest)
        return step

    def checkpoint(db: Connection, step: Step) -> Step:
        assert isinstance(report, CheckpointAnnounced)
        whole = files.announce(db, report.share, now)
        if whole is None:
            return step
        facts = whole.model_dump(include={"path", "serial", "epoch", "step", "monitor", "score"})
        return step.tell("checkpoint", now, of_attempt=whole.attempt, **facts)

    def ended(db: Connection, step: Step) -> Step:
        jobs.release(db, report.job_id, report.attempt, report.node_rank)
        return step

    match report:
        case CallStored() | OutputsIndexed():
            return manifest
        case CheckpointAnnounced():
            return checkpoint
        case TaskEnded():
            return ended
        case _:
            return None


def remove(store: Store, job_id: str) -> set[str]:
    """Forget an ended job; returns the digests that were stored with it."""
    with store.write() as db:
        record = jobs.load(db, job_id)
        if not record.state.terminal:
            raise InvalidJob(f"{job_id} is still {record.state}.", next_step=f"End it first: gpulayer jobs cancel {job_id}")
        found = blobs.of_job(db, job_id)
        jobs.forget(db, job_id)
    return found


def remove_artifacts(store: Store, job_id: str, paths: Collection[str]) -> list[Artifact]:
    """Forget files of an ended job; returns them. Those of its checkpoints stay with these."""
    with store.write() as db:
        record = jobs.load(db, job_id)
        if not record.state.terminal:
            raise InvalidJob(f"{job_id} is still {record.state}.", next_step=f"End it first: gpulayer jobs cancel {job_id}")
        found = [each for each in files.of_attempt(db, job_id, record.attempt) if each.path in paths]
        if missing := sorted(set(paths) - {each.path for each in found}):
            raise ArtifactNotFound(f"{job_id} left no {missing[0]}.", job_id=job_id, path=missing[0])
        checkpoints = {
            entry.path: each.path for each in files.complete(db, job_id) if not each.removed for entry in each.entries
        }
        for each in found:
            if (path := each.path.partition("/")[2]) in checkpoints:
                raise InvalidJob(
                    f"{each.path} is the checkpoint {checkpoints[path]} of {job_id}, from which it may go on.",
                    next_step=f"Forget the whole job: gpulayer jobs rm {job_id}",
                )
        files.forget(db, found)
    return found
