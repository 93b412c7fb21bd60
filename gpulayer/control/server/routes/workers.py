"""Workers: registered, given orders, drained, removed."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from gpulayer.control.engine.rights import Action
from gpulayer.control.server import registrations
from gpulayer.control.server.asking import LONGEST_WAIT_S, Asking, Hosted, as_json, hung_up
from gpulayer.errors import BadRequest
from gpulayer.spec.records import Orders, WorkerRecord
from gpulayer.spec.workers import WorkerInfo

router = APIRouter(prefix="/v1/workers", tags=["workers"])


class Registration(WorkerInfo, defer_build=False):
    """What a worker says of itself."""


@router.get("", response_model=list[WorkerRecord])
def workers(plane: Hosted, asker: Asking) -> Response:
    asker.may(Action.READ_WORKERS)
    return as_json(plane.workers())


@router.put("/{worker_id}", response_model=WorkerRecord)
def register(worker_id: str, body: Registration, plane: Hosted, asker: Asking) -> Response:
    asker.may(Action.BE_WORKER, worker_id=worker_id)
    if body.id != worker_id:
        raise BadRequest(f"{worker_id} can't register as {body.id}.")
    registrations.check(body)
    return as_json(plane.register(body))


@router.get("/{worker_id}/orders", response_model=Orders)
async def orders(
    request: Request,
    worker_id: str,
    plane: Hosted,
    asker: Asking,
    seen: Annotated[int, Query(ge=0, le=2**57)] = 0,
    timeout_s: Annotated[float, Query(ge=0)] = 0.0,
    incarnation: Annotated[str, Query(max_length=100)] = "",
) -> Response:
    """Wait until the worker's orders differ from version ``seen``, or the timeout passed; also renews its lease."""
    asker.may(Action.BE_WORKER, worker_id=worker_id)
    look = plane.look_for_orders(worker_id, seen, incarnation)
    wait_s = min(timeout_s, LONGEST_WAIT_S)
    found = await plane.waits.wait_aside(worker_id, look, wait_s, lambda: hung_up(request))
    return as_json(found or look.found)


@router.post("/{worker_id}/leave", status_code=204)
def leave(worker_id: str, plane: Hosted, asker: Asking) -> None:
    """A worker that goes by itself, with nothing left running."""
    asker.may(Action.BE_WORKER, worker_id=worker_id)
    plane.unregister(worker_id)


@router.post("/{worker_id}/drain", status_code=204)
def drain(worker_id: str, plane: Hosted, asker: Asking) -> None:
    """Give a worker nothing more; one that is told to end asks that for itself."""
    asker.may(Action.DRAIN_WORKERS, worker_id=worker_id)
    plane.drain(worker_id)


@router.delete("/{worker_id}", status_code=204)
def remove(worker_id: str, plane: Hosted, asker: Asking) -> None:
    asker.may(Action.REMOVE_WORKERS)
    plane.remove_worker(worker_id)
