"""The files that a job left, and its whole checkpoints."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import Field

from gpulayer.control.engine.rights import Action
from gpulayer.control.server.asking import Asked, Asking, Hosted, as_json
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


class Removal(Asked):
    """Files of a job's latest attempt, as ``node<r>/<path>``."""

    paths: Annotated[list[Annotated[str, Field(max_length=4096)]], Field(max_length=10_000)]


@router.post("/artifacts/remove", response_model=list[Artifact])
def remove(job_id: str, body: Removal, plane: Hosted, asker: Asking) -> Response:
    asker.may(Action.CHANGE_JOBS)
    return as_json(plane.remove_artifacts(job_id, body.paths))
