"""What a server says of itself: to anyone whether it is well, to those with a token what it is."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST

from gpulayer.control.engine.rights import Action
from gpulayer.control.server.asking import Asking, Hosted, as_json
from gpulayer.spec.base import Record
from gpulayer.spec.tokens import Role

router = APIRouter(tags=["about"])

VERSION = version("gpulayer")


class About(Record):
    """``role`` is that of the token that asked; ``now`` is the plane's clock."""

    version: str
    lease_s: float
    role: Role
    now: float


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """Say that the process answers."""
    return {"status": "ok"}


@router.get("/readyz", responses={503: {}})
def readyz(plane: Hosted) -> Response:
    """Say whether questions will be answered: not while the database is away, or at the end."""
    ready = plane.well and not plane.waits.closed and plane.reaches_database()
    return as_json({"ready": ready}, 200 if ready else 503)


@router.get("/metrics", response_class=PlainTextResponse)
def metrics(request: Request) -> Response:
    return PlainTextResponse(request.app.state.metrics.text(), media_type=CONTENT_TYPE_LATEST)


@router.get("/v1/about")
def about(plane: Hosted, asker: Asking) -> About:
    asker.may(Action.ABOUT)
    return About(version=VERSION, lease_s=plane.lease_s, role=asker.principal.role, now=plane.store.now())


@router.get("/v1/openapi.json")
def openapi(request: Request, asker: Asking) -> dict[str, Any]:
    """Describe this API."""
    asker.may(Action.ABOUT)
    app = request.app
    assert isinstance(app, FastAPI)
    return app.openapi()
