"""Which status an error travels with, and how it reads on the wire."""

from __future__ import annotations

import logging
import secrets
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import DataError
from starlette.exceptions import HTTPException
from starlette.types import Scope

from gpulayer import errors
from gpulayer.control.store.conflict import Conflict
from gpulayer.errors import GPULayerError
from gpulayer.spec.base import Record

_log = logging.getLogger("gpulayer.server")

STATUS: dict[type[GPULayerError], int] = {
    errors.BadRequest: 400,
    errors.Unauthorized: 401,
    errors.Forbidden: 403,
    errors.NotFound: 404,
    errors.TokenNotFound: 404,
    errors.SecretNotFound: 404,
    errors.StaleReport: 409,
    errors.NameTaken: 409,
    errors.MessageTooLarge: 413,
    errors.LogFull: 413,
    errors.InvalidJob: 422,
    errors.Unschedulable: 422,
    errors.InvalidSecret: 422,
    errors.CallRefused: 409,
    errors.PlaneBusy: 503,
    errors.HomeBusy: 503,
    errors.DatabaseUnusable: 503,
    errors.DiskFull: 507,
}
"""The nearest class counts; whatever isn't here is our fault."""

RETRY_AFTER_S = 1.0
_CONFLICT_S = 0.1


class Told(Record):
    """An error on the wire (see ``GPULayerError.to_wire``)."""

    code: str
    sentence: str
    next_step: str
    facts: dict[str, Any]


class ErrorAnswer(Record):
    error: Told


_WORDS = {
    400: "The request can't be read.",
    401: "No token, or none of this plane.",
    403: "The token's role may not do this.",
    404: "There is no such thing.",
    409: "Someone or something came first.",
    413: "Too large.",
    416: "There are no such bytes.",
    422: "It can be read, and can't be.",
    429: "Too many requests; Retry-After says when.",
    503: "The plane is stopping, or its database is busy or away.",
    507: "The plane's disk is full.",
}
DECLARED: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorAnswer, "description": words} for status, words in _WORDS.items()
}
"""What every route may answer besides."""


def status_of(error: GPULayerError) -> int:
    """Return the status of an error; a busy plane may say which it is in its facts."""
    if isinstance(error, errors.PlaneBusy) and "status" in error.facts:
        return int(error.facts["status"])
    return next((STATUS[cls] for cls in type(error).__mro__ if cls in STATUS), 500)


def answer(error: GPULayerError, status: int | None = None) -> JSONResponse:
    """Make the answer that a client makes the same error of."""
    status = status_of(error) if status is None else status
    headers = {}
    if status in (429, 503):
        headers["Retry-After"] = str(error.facts.get("retry_after_s", RETRY_AFTER_S))
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse({"error": _plain(error.to_wire())}, status, headers)


def _plain(wire: dict[str, Any]) -> dict[str, Any]:
    """Make sure that JSON can hold the facts, whatever an error was given."""
    wire["facts"] = {name: value if _is_plain(value) else str(value) for name, value in wire["facts"].items()}
    return wire


def _is_plain(value: object) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(isinstance(name, str) and _is_plain(each) for name, each in value.items())
    return value is None or isinstance(value, str | int | bool) or (isinstance(value, float) and value - value == 0)


def install(app: FastAPI) -> None:
    """Let every error leave as ours, with a status that says whose fault it was."""
    app.add_exception_handler(GPULayerError, _ours)
    app.add_exception_handler(RequestValidationError, _not_understood)
    app.add_exception_handler(HTTPException, _of_the_framework)
    app.add_exception_handler(Exception, _fault)
    app.add_exception_handler(OverflowError, _not_storable)
    app.add_exception_handler(DataError, _not_storable)
    app.add_exception_handler(Conflict, _not_first)


async def _ours(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, GPULayerError)
    return answer(error) if status_of(error) != 500 else unforeseen(request.scope, error)


async def _not_understood(request: Request, error: Exception) -> JSONResponse:
    """Name the fields of a request that don't fit; what people write as a job is invalid, the rest is a bad request."""
    assert isinstance(error, RequestValidationError)
    fields = {".".join(map(str, each["loc"])): str(each["msg"]) for each in error.errors()}
    unknown = any(each["type"] == "extra_forbidden" for each in error.errors())
    kind = errors.InvalidJob if unknown else errors.BadRequest
    sentence = "; ".join(f"{name}: {why}" for name, why in list(fields.items())[:5])
    return answer(kind(f"The request can't be read: {sentence}.", fields=fields))


async def _of_the_framework(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    kind = errors.NotFound if error.status_code == 404 else errors.BadRequest
    told = kind(f"{request.method} {request.url.path}: {error.detail}.").to_wire()
    return JSONResponse({"error": told}, error.status_code, error.headers)


async def _not_storable(request: Request, error: Exception) -> JSONResponse:
    return answer(errors.BadRequest("The request holds a number or a character that no plane can store."))


async def _not_first(request: Request, error: Exception) -> JSONResponse:
    """Nothing of it was written, so it can be asked for again at once."""
    return answer(errors.PlaneBusy("Someone else wrote the same at the same moment.", retry_after_s=_CONFLICT_S))


async def _fault(request: Request, error: Exception) -> JSONResponse:
    return unforeseen(request.scope, error)


def unforeseen(scope: Scope, error: Exception) -> JSONResponse:
    """Tell the caller an id and nothing else; the log has the rest."""
    fault = secrets.token_hex(6)
    facts = {"fault": fault, "method": scope["method"], "path": scope["path"]}
    _log.error("fault", exc_info=error, extra={"facts": facts})
    told = errors.PlaneError("The plane failed at this.", next_step=f"Its log tells why, under {fault}.", fault=fault)
    return JSONResponse({"error": told.to_wire()}, 500)
