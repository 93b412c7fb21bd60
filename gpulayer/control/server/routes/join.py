"""Joining over HTTP: a join token, and the hash of a key that the machine made, become a worker's credential."""

from __future__ import annotations

from fastapi import APIRouter, Request

from gpulayer.control.server import auth
from gpulayer.control.server.asking import Hosted
from gpulayer.spec.tokens import Joined, JoinRequest

router = APIRouter(prefix="/v1/join", tags=["joining"])


@router.post("")
def join(wanted: JoinRequest, plane: Hosted, request: Request) -> Joined:
    """Become a worker. The same token and key may ask again for ten minutes, and get the same answer."""
    bearer = auth.bearer_of(request.headers.get("Authorization"))
    worker_id = auth.redeem(plane.store, bearer, wanted.key_hash, wanted.name, plane.store.now())
    return Joined(worker_id=worker_id)
