"""What a worker may say in a report: it speaks of its own task, and of the ranks that it hosts."""

from __future__ import annotations

from gpulayer.errors import BadRequest
from gpulayer.spec.records import JobRecord
from gpulayer.spec.reports import CallStored, CheckpointAnnounced, OutputsIndexed, Report


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


def check_rank(record: JobRecord, report: Report) -> None:
    """Refuse a checkpoint's share of a rank of another node: it would stand for what that rank never wrote."""
    if isinstance(report, CheckpointAnnounced) and report.share.rank // record.procs_per_worker != report.node_rank:
        raise BadRequest(f"Node {report.node_rank} does not host rank {report.share.rank}.")
