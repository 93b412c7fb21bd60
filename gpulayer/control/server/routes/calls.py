"""The calls of a script: their go, the caller's tensors, the caller's farewell."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response

from gpulayer.control.engine.rights import Action
from gpulayer.control.server.asking import Asking, Hosted, as_json
from gpulayer.spec.calls import CallView, Go
from gpulayer.spec.files import Blob

router = APIRouter(prefix="/v1/jobs/{job_id}", tags=["calls"])


class CallersGo(Go, defer_build=False):
    """A go as the body of a request."""


class State(Blob, defer_build=False):
    """The caller's tensors, which are stored already."""


@router.post("/go", response_model=CallView)
def go(job_id: str, body: CallersGo, plane: Hosted, asker: Asking) -> Response:
    asker.may(Action.CHANGE_JOBS)
    return as_json(plane.go(job_id, body))


@router.post("/calls/{call}/state", status_code=204)
def send_state(job_id: str, call: Annotated[int, Path(ge=0, le=2**31)], body: State, plane: Hosted, asker: Asking) -> None:
    asker.may(Action.CHANGE_JOBS)
    plane.send_state(job_id, call, body)


@router.post("/farewell", status_code=204)
def farewell(job_id: str, plane: Hosted, asker: Asking) -> None:
    asker.may(Action.CHANGE_JOBS)
    plane.farewell(job_id)
