"""A job's lines: appended by its workers, streamed to its readers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse
from pydantic import Field
from pydantic_core import to_json

from gpulayer.control.engine.rights import Action
from gpulayer.control.server.asking import Asking, Hosted
from gpulayer.errors import BadRequest
from gpulayer.spec.logs import LogLine

router = APIRouter(prefix="/v1/jobs/{job_id}", tags=["lines"])

MOST_LINES = 10_000
_TOGETHER = 500


@router.post("/lines", status_code=204)
def append(job_id: str, body: Annotated[list[LogLine], Field(max_length=MOST_LINES)], plane: Hosted, asker: Asking) -> None:
    """Store lines; those that are stored already are passed over."""
    asker.may(Action.REPORT, job_id=job_id, tasks={(line.attempt, line.node_rank) for line in body})
    if any(line.job_id != job_id for line in body):
        raise BadRequest(f"Not all of these are lines of {job_id}.")
    plane.append_lines(job_id, body)


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
    return StreamingResponse(_ndjson(iter(found)), media_type="application/x-ndjson")


def _ndjson(lines: Iterator[LogLine]) -> Iterator[bytes]:
    while together := list(islice(lines, _TOGETHER)):
        yield b"".join(to_json(line) + b"\n" for line in together)
