"""The files that a job left, and its whole checkpoints."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from gpulayer.control.engine.rights import Action
from gpulayer.control.server.asking import Asking, Hosted, as_json
from gpulayer.spec.files import Artifact, Checkpoint

router = APIRouter(prefix="/v1/jobs/{job_id}", tags=["artifacts"])


@router.get("/artifacts", response_model=list[Artifact])
def artifacts(
    job_id: str, plane: Hosted, asker: Asking, attempt: Annotated[int, Query(ge=0, le=2**31)] | None = None
) -> Response:
    job_id = plane.full_id(job_id)
    asker.may(Action.READ_FILES, job_id=job_id)
    return as_json(plane.artifacts(job_id, attempt=attempt))


@router.get("/checkpoints", response_model=list[Checkpoint])
def checkpoints(job_id: str, plane: Hosted, asker: Asking) -> Response:
    job_id = plane.full_id(job_id)
    asker.may(Action.READ_FILES, job_id=job_id)
    return as_json(plane.checkpoints(job_id))
