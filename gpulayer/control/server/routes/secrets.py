"""Secrets over HTTP: set and removed by admins, named to users, given to the workers of a job that names them."""

from __future__ import annotations

from fastapi import APIRouter, Response

from gpulayer.control.engine.rights import Action
from gpulayer.control.server.asking import Asked, Asking, Hosted, as_json

router = APIRouter(prefix="/v1", tags=["secrets"])


class SecretValue(Asked):
    """A secret's new value."""

    value: str


@router.put("/secrets/{name}", status_code=204)
def put(name: str, wanted: SecretValue, asker: Asking, plane: Hosted) -> None:
    """Store a secret, in the place of an older one of that name."""
    asker.may(Action.CHANGE_SECRETS)
    plane.set_secret(name, wanted.value)


@router.get("/secrets")
def names(asker: Asking, plane: Hosted) -> list[str]:
    """List the names of secrets; a value is told to nobody who asks here."""
    asker.may(Action.LIST_SECRETS)
    return plane.secret_names()


@router.delete("/secrets/{name}", status_code=204)
def remove(name: str, asker: Asking, plane: Hosted) -> None:
    asker.may(Action.CHANGE_SECRETS)
    plane.remove_secret(name)


@router.get("/jobs/{job_id}/secrets", response_model=dict[str, str])
def of_job(job_id: str, asker: Asking, plane: Hosted) -> Response:
    """Give a job's secrets to a worker that holds a task of it."""
    asker.may(Action.USE_SECRETS, job_id=job_id)
    answer = as_json(plane.secrets_of(job_id))
    answer.headers["Cache-Control"] = "no-store"
    return answer
