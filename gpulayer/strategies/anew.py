"""Submits an ended job again, as it was: one of a Trainer makes its last call, from a checkpoint if it has one."""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO
from pathlib import PurePosixPath

from gpulayer.client import checkpoints
from gpulayer.errors import ArtifactNotFound, CallRefused
from gpulayer.plane import Plane
from gpulayer.spec.calls import CallView, EarlierCall, Go
from gpulayer.spec.files import Checkpoint, FileEntry
from gpulayer.spec.records import JobRecord
from gpulayer.strategies import call_settings
from gpulayer.strategies.call_settings import CallSettings

FROM_START = "start"


def resubmit(plane: Plane, job: JobRecord, start: str | None = None) -> tuple[JobRecord, Checkpoint | None]:
    """Submit a job once more and return the new one, and the checkpoint that it goes on from.

    ``start`` is ``last``, ``best``, the path of one of the job's checkpoints, or ``start`` for none; without it the newest
    counts, if there is one. Raises ``CallRefused`` where the job has not ended or is none of a Trainer but is to go on from a
    checkpoint, and ``ArtifactNotFound`` where it has no such checkpoint.
    """
    if not job.state.terminal:
        raise CallRefused(f"{job.id} is {job.state}: it has not ended.", next_step=f"gpulayer jobs cancel {job.id} ends it.")
    called = [view for view in job.calls if view.go is not None]
    if job.spec.calls is None or not called:
        if start not in (None, FROM_START):
            raise CallRefused(
                f"{job.id} holds no call of a Trainer, so that nothing in it could load a checkpoint.",
                next_step="Submit it anew with inputs that point at its files.",
            )
        return plane.submit(job.spec), None
    chosen = _chosen(plane, job, start)
    again = plane.submit(job.spec)
    plane.go(again.id, _go(plane, called, chosen, job.spec.calls.root))
    plane.farewell(again.id)
    return again, chosen


def _chosen(plane: Plane, job: JobRecord, start: str | None) -> Checkpoint | None:
    if start == FROM_START:
        return None
    if start is None:
        return checkpoints.newest(plane.checkpoints(job.id))
    found = checkpoints.find(plane, f"{checkpoints.SCHEME}{job.id}/{start}")
    if not isinstance(found, Checkpoint):
        raise ArtifactNotFound(f"{start} of {job.id} is no checkpoint.", job_id=job.id, path=start)
    return found


def _go(plane: Plane, called: list[CallView], chosen: Checkpoint | None, root: str) -> Go:
    """Write the go of the last call again: those before it are answered from their record."""
    go = called[-1].go
    assert go is not None
    settings = CallSettings()
    if go.settings is not None:
        with plane.open_blob(go.settings.sha256) as opened:
            settings = call_settings.unpack(BytesIO(opened.read()))
    sent: tuple[FileEntry, ...] = go.checkpoint
    if chosen is not None:
        shown = checkpoints.url_of(chosen)
        settings = replace(settings, ckpt_path=f"{root}/{chosen.path.rstrip('/')}", ckpt_shown=shown, ckpt_again=True)
        above = PurePosixPath(chosen.path.rstrip("/")).parent
        sent = tuple(
            FileEntry(path=str(PurePosixPath(each.path).relative_to(above)), blob=each.blob) for each in chosen.entries
        )
    return go.model_copy(
        update={
            "settings": plane.put_blob(call_settings.pack(settings)),
            "earlier": _earlier(called),
            "checkpoint": sent,
            # Where rank 0 was like the caller, nothing of the caller was kept, and the same script makes the same again.
            "state_digest": go.state_digest if go.state is not None else "",
        }
    )


def _beside(entry: FileEntry, above: PurePosixPath) -> FileEntry:
    """Name a checkpoint's file as one that is sent with a go: by itself, or below the checkpoint's own folder."""
    return FileEntry(path=PurePosixPath(entry.path).relative_to(above).as_posix(), blob=entry.blob)


def _earlier(called: list[CallView]) -> tuple[EarlierCall, ...]:
    known = {each.call: each for view in called if view.go is not None for each in view.go.earlier}
    for view in called[:-1]:
        first = next((outcome for outcome in view.outcomes if outcome.rank == 0), None)
        known[view.call] = EarlierCall(call=view.call, status="ok", outcome=None if first is None else first.body)
    return tuple(known[call] for call in sorted(known))
