"""What a worker may say in a report: it speaks of its own task, of ranks that it hosts, of files below its output folder."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection

from gpulayer.control.store import files
from gpulayer.errors import BadRequest
from gpulayer.spec.files import Blob, FileEntry, Manifest, is_below, is_named_blob
from gpulayer.spec.records import JobRecord
from gpulayer.spec.reports import CallStored, CheckpointAnnounced, OutputsIndexed, RankOutcome, Report

_LONGEST_PATH = 4096


def check_task(report: Report) -> None:
    """Refuse files that would be filed under another task than the one that the report speaks of."""
    own = (report.job_id, report.attempt)
    match report:
        case CallStored() | OutputsIndexed():
            found = report.manifest
            fits = (found.job_id, found.attempt) == own and found.node_rank == report.node_rank
        case CheckpointAnnounced():
            fits = (report.share.job_id, report.share.attempt) == own
        case _:
            return
    if not fits:
        raise BadRequest("A report tells of files of another task than its own.")


def check_files(report: Report) -> None:
    """Refuse files that would lie elsewhere than below a folder, or that no bytes can belong to."""
    match report:
        case CallStored() | OutputsIndexed():
            _check_entries(report.manifest.entries)
        case CheckpointAnnounced():
            if report.share.path != ".":  # a checkpoint of many files may be the output folder itself
                _check_path(report.share.path)
            _check_entries(report.share.entries)
        case RankOutcome():
            outcome = report.outcome
            _check_blobs(blob for blob in (outcome.body, outcome.error and outcome.error.body) if blob)
        case _:
            return


def check_stored(db: Connection, manifest: Manifest) -> None:
    """Refuse a manifest of files that nobody could fetch."""
    missing = files.not_stored(db, {entry.blob.sha256 for entry in manifest.entries})
    for entry in manifest.entries:
        if entry.blob.sha256 in missing:
            raise BadRequest(f"The bytes of {entry.path!r} are not stored.")


def _check_entries(entries: Iterable[FileEntry]) -> None:
    for entry in entries:
        _check_path(entry.path)
        _check_blobs([entry.blob])


def _check_path(path: str) -> None:
    if len(path) > _LONGEST_PATH or not is_below(path):
        raise BadRequest(f"{path[:200]!r} is no path below an output folder.")


def _check_blobs(blobs: Iterable[Blob]) -> None:
    for blob in blobs:
        if not is_named_blob(blob):
            raise BadRequest(f"{blob.sha256[:80]!r} of {blob.size} bytes names no blob.")


def check_rank(record: JobRecord, report: Report) -> None:
    """Refuse a checkpoint's share of a rank of another node: it would stand for what that rank never wrote."""
    if isinstance(report, CheckpointAnnounced) and report.share.rank // record.procs_per_worker != report.node_rank:
        raise BadRequest(f"Node {report.node_rank} does not host rank {report.share.rank}.")
