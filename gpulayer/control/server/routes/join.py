"""Joining over HTTP: a join token, and the hash of a key that the machine made, become a worker's credential."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request

from gpulayer.control.server import auth
from gpulayer.control.server.asking import Hosted
from gpulayer.spec.tokens import Joined, JoinRequest

router = APIRouter(prefix="/v1/join", tags=["joining"])


def shown(request: Request, plane: Hosted) -> str:
    """Return the token that was shown, which may be spent: who asks again is answered again."""
    bearer = auth.bearer_of(request.headers.get("Authorization"))
    auth.recognise(plane.store, bearer)
    return bearer


@router.post("")
def join(wanted: JoinRequest, plane: Hosted, bearer: Annotated[str, Depends(shown)]) -> Joined:
    """Become a worker. The same token and key may ask again for ten minutes, and get the same answer."""
    worker_id = auth.redeem(plane.store, bearer, wanted.key_hash, wanted.name, plane.store.now())
    return Joined(worker_id=worker_id)
