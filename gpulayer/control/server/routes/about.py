"""What a server says of itself: to anyone whether it is well, to those with a token what it is."""

from __future__ import annotations

from fastapi import APIRouter

from gpulayer.control.engine.rights import Action
from gpulayer.control.server.asking import Asking, Hosted
from gpulayer.spec.base import Record

router = APIRouter(tags=["about"])


class About(Record):
    version: str
    lease_s: float


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """Say that the process answers."""
    return {"status": "ok"}


@router.get("/v1/about")
def about(plane: Hosted, asker: Asking) -> About:
    asker.may(Action.ABOUT)
    from importlib.metadata import version

    return About(version=version("gpulayer"), lease_s=plane.lease_s)
