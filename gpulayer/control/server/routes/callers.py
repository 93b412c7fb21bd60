"""Callers: heard from for as long as they are there, and gone with a word."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import Field

from gpulayer.control.engine.rights import Action
from gpulayer.control.server.asking import Asked, Asking, Hosted

router = APIRouter(prefix="/v1/callers", tags=["callers"])

CallerId = Annotated[str, Path(pattern=r"^prc-[0-9a-f]{12}$")]


class Caller(Asked):
    """What a caller says of itself."""

    kind: Annotated[str, Field(max_length=16)] = "caller"
    pid: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    host: Annotated[str, Field(max_length=255)] = ""


@router.put("/{caller_id}", status_code=204)
def renew(caller_id: CallerId, body: Caller, plane: Hosted, asker: Asking) -> None:
    """Say that a caller is there: the first time, and again before its lease ends."""
    asker.may(Action.BE_CALLER)
    plane.keep_caller(caller_id, body.kind, body.pid, body.host)


@router.delete("/{caller_id}", status_code=204)
def leave(caller_id: CallerId, plane: Hosted, asker: Asking) -> None:
    """Say that a caller ends: what it left running goes on."""
    asker.may(Action.BE_CALLER)
    plane.caller_left(caller_id)
