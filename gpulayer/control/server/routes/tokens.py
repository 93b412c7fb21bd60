"""Tokens over HTTP: made, listed and revoked by admins."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from gpulayer.control.engine.rights import Action
from gpulayer.control.server import auth
from gpulayer.control.server.asking import Asking, Hosted, as_json
from gpulayer.spec.tokens import NewToken, TokenRecord, TokenRequest

router = APIRouter(prefix="/v1/tokens", tags=["tokens"])


@router.post("", status_code=201, response_model=NewToken)
def create(wanted: TokenRequest, asker: Asking, plane: Hosted, request: Request) -> Response:
    """Make a token; its text is in this answer and nowhere else."""
    asker.may(Action.MANAGE_TOKENS)
    made = auth.create(plane.store, wanted, plane.store.now(), fingerprint=request.app.state.fingerprint)
    answer = as_json(made, 201)
    answer.headers["Cache-Control"] = "no-store"
    return answer


@router.get("", response_model=list[TokenRecord])
def listed(asker: Asking, plane: Hosted) -> Response:
    """List all tokens, without their texts."""
    asker.may(Action.MANAGE_TOKENS)
    return as_json(auth.listed(plane.store))


@router.delete("/{token_id}", status_code=204)
def revoke(token_id: str, asker: Asking, plane: Hosted) -> None:
    """Make a token good for nothing, by its id or a unique prefix of it."""
    asker.may(Action.MANAGE_TOKENS)
    auth.revoke(plane.store, token_id, plane.store.now())
