"""What workers report of their tasks."""

from __future__ import annotations

from fastapi import APIRouter

from gpulayer.control.engine.rights import Action
from gpulayer.control.server.asking import Asking, Hosted
from gpulayer.errors import BadRequest
from gpulayer.spec.reports import CallStored, CheckpointAnnounced, OutputsIndexed, Report

router = APIRouter(prefix="/v1", tags=["reports"])


@router.post("/reports", status_code=204)
def report(body: Report, plane: Hosted, asker: Asking) -> None:
    task = (body.attempt, body.node_rank)
    asker.may(Action.REPORT, worker_id=body.worker_id, job_id=body.job_id, tasks=[task])
    _of_its_own_task(body)
    plane.report(body)


def _of_its_own_task(report: Report) -> None:
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
