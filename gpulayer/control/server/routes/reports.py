"""What workers report of their tasks."""

from __future__ import annotations

from fastapi import APIRouter

from gpulayer.control.engine.rights import Action
from gpulayer.control.server.asking import Asking, Hosted
from gpulayer.spec.reports import Report

router = APIRouter(prefix="/v1", tags=["reports"])


@router.post("/reports", status_code=204)
def report(body: Report, plane: Hosted, asker: Asking) -> None:
    task = (body.attempt, body.node_rank)
    asker.may(Action.REPORT, worker_id=body.worker_id, job_id=body.job_id, tasks=[task])
    plane.report(body)
