"""A job's lines: appended by its workers, streamed to its readers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import StreamingResponse
from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import to_json
from starlette.types import Receive, Scope, Send

from gpulayer.control.engine.rights import Action
from gpulayer.control.server.asking import Asker, Asking, Hosted, in_thread
from gpulayer.control.server.hosted import HostedPlane
from gpulayer.control.server.readers import Readers
from gpulayer.errors import BadRequest
from gpulayer.spec.logs import LogLine

router = APIRouter(prefix="/v1/jobs/{job_id}", tags=["lines"])

MOST_LINES = 10_000
_TOGETHER = 256 * 1024
"""Bytes; a reader that does not read costs this, and the chunk that they came from."""
_LINES = TypeAdapter(Annotated[list[LogLine], Field(max_length=MOST_LINES)])
_SCHEMA: dict[str, Any] = {"type": "array", "maxItems": MOST_LINES, "items": {"$ref": "#/components/schemas/LogLine"}}
_CONTENT = {"application/json": {"schema": _SCHEMA}}


@router.post("/lines", status_code=204, openapi_extra={"requestBody": {"required": True, "content": _CONTENT}})
async def append(request: Request, job_id: str, plane: Hosted, asker: Asking) -> None:
    """Store lines; those that are stored already are passed over."""
    body = await request.body()
    await in_thread(lambda: _append(job_id, body, plane, asker))  # reading thousands of them would hold up all others


def _append(job_id: str, body: bytes, plane: HostedPlane, asker: Asker) -> None:
    try:
        found = _LINES.validate_json(body)
    except ValidationError as cause:
        raise RequestValidationError(cause.errors()) from cause
    asker.may(Action.REPORT, job_id=job_id, tasks={(line.attempt, line.node_rank) for line in found})
    if any(line.job_id != job_id for line in found):
        raise BadRequest(f"Not all of these are lines of {job_id}.")
    if any(line.seq < 0 for line in found):
        raise BadRequest("Lines are numbered from 0.")
    plane.append_lines(job_id, found)


@router.get("/log-marks")
def marks(
    job_id: str,
    plane: Hosted,
    asker: Asking,
    attempt: Annotated[int, Query(ge=0, le=2**31)],
    node_rank: Annotated[int, Query(ge=0, le=2**31)],
) -> dict[str, int]:
    """Return the highest stored ``seq`` for each "rank/stream" of one node."""
    asker.may(Action.REPORT, job_id=job_id)
    return plane.log_marks(job_id, attempt, node_rank)


@router.get("/lines", responses={200: {"content": {"application/x-ndjson": {}}}}, response_class=StreamingResponse)
def lines(
    job_id: str,
    plane: Hosted,
    asker: Asking,
    rank: Annotated[int, Query(ge=0, le=2**31)] | None = None,
    tail: Annotated[int, Query(ge=0, le=2**31)] | None = None,
) -> StreamingResponse:
    """Stream the stored lines, one JSON object a line; a reader may be as slow as it likes."""
    asker.may(Action.READ_JOBS)
    found = plane.lines(job_id, rank=rank, tail=tail)
    return _Stream(_ndjson(iter(found)), plane.readers, asker.principal.token_id)


class _Stream(StreamingResponse):
    """Counts as a reader for as long as it is sent."""

    media_type = "application/x-ndjson"

    def __init__(self, content: Iterator[bytes], readers: Readers, asker: str) -> None:
        super().__init__(content)
        self._readers = readers
        self._asker = asker

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._readers.one_more(self._asker):  # who is one too many is told so: nothing was sent yet
            await super().__call__(scope, receive, send)


def _ndjson(lines: Iterator[LogLine]) -> Iterator[bytes]:
    together = bytearray()
    for line in lines:
        together += to_json(line) + b"\n"
        if len(together) >= _TOGETHER:
            yield bytes(together)
            together.clear()
    if together:
        yield bytes(together)
