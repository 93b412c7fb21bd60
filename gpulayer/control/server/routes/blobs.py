"""Blobs: sent in parts, read whole or in ranges, in constant memory both ways."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated, BinaryIO

from fastapi import APIRouter, Header, Path, Request, Response
from fastapi.responses import StreamingResponse

from gpulayer.control.engine.rights import Action
from gpulayer.control.server.asking import Asking, Hosted, Receiving, as_json, in_thread
from gpulayer.control.server.uploads import Upload, Uploads, part_of
from gpulayer.errors import BadRequest
from gpulayer.spec.base import Record
from gpulayer.spec.files import Blob

router = APIRouter(prefix="/v1", tags=["blobs"])

Digest = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")]
_CHUNK = 1024 * 1024
_RANGE = re.compile(r"bytes=(\d{0,15})-(\d{0,15})\Z")


class Offset(Record):
    """How much of an upload is there, and so where to go on."""

    offset: int


@router.put("/blobs/{sha256}", response_model=Offset, responses={201: {"model": Blob}})
async def put(
    request: Request,
    sha256: Digest,
    uploads: Receiving,
    asker: Asking,
    content_range: Annotated[str | None, Header()] = None,
    content_length: Annotated[int | None, Header()] = None,
) -> Response:
    """Take a part of a blob, or the whole; answers where to go on until all is there."""
    asker.may(Action.WRITE_BLOBS)
    part = part_of(content_range, content_length)
    upload = await uploads.in_thread(lambda: uploads.begin(asker.principal.token_id, sha256, part))
    if isinstance(upload, Blob):
        async for _ in request.stream():  # else the client, still sending, would find its connection broken
            pass
        return as_json(upload, 201)
    try:
        await _receive(request, upload, uploads)
        found = await uploads.in_thread(upload.finish)
    finally:
        upload.close()
    return as_json(found, 201) if isinstance(found, Blob) else as_json(Offset(offset=found))


async def _receive(request: Request, upload: Upload, uploads: Uploads) -> None:
    """Write what came while more is coming."""
    gathered = bytearray()
    writing: asyncio.Task[None] | None = None
    try:
        async for data in request.stream():
            gathered += data
            if len(gathered) >= _CHUNK:
                if writing is not None:
                    await writing
                writing = asyncio.create_task(uploads.in_thread(partial(upload.write, gathered)))
                gathered = bytearray()
    finally:
        if writing is not None:
            await writing
    await uploads.in_thread(partial(upload.write, gathered))


@router.get("/uploads/{sha256}")
def offset(sha256: Digest, uploads: Receiving, asker: Asking) -> Offset:
    """Say how much of an upload is there."""
    asker.may(Action.WRITE_BLOBS)
    return Offset(offset=uploads.offset(asker.principal.token_id, sha256))


@router.head("/blobs/{sha256}", response_class=Response)
async def head(sha256: Digest, plane: Hosted, uploads: Receiving, asker: Asking) -> Response:
    await in_thread(lambda: asker.may(Action.READ_BLOBS, sha256=sha256))

    def look() -> Response:
        if not plane.has_blob(sha256):
            return Response(status_code=404)
        with plane.open_blob(sha256) as file:
            return Response(headers={**_headers(sha256), "Content-Length": str(_size(file))})

    return await uploads.in_thread(look)


@router.get(
    "/blobs/{sha256}",
    response_class=StreamingResponse,
    responses={200: {"content": {"application/octet-stream": {}}}, 206: {"content": {"application/octet-stream": {}}}},
)
async def get(
    sha256: Digest,
    plane: Hosted,
    uploads: Receiving,
    asker: Asking,
    wanted: Annotated[str | None, Header(alias="Range")] = None,
) -> Response:
    """Stream a blob, or the one ``Range`` of it that is asked for."""
    await in_thread(lambda: asker.may(Action.READ_BLOBS, sha256=sha256))
    file = await uploads.in_thread(lambda: plane.open_blob(sha256))
    try:
        size = await uploads.in_thread(lambda: _size(file))
        span = _span(wanted, size)
        start, end = (0, size) if span is None else span
        headers = {**_headers(sha256), "Content-Length": str(max(0, end - start))}
        if start >= end and span is not None:
            file.close()
            return Response(status_code=416, headers={"Content-Range": f"bytes */{size}"})
        if span is not None:
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
        body = _bytes(file, start, end, uploads)
        return StreamingResponse(body, 200 if span is None else 206, headers, media_type="application/octet-stream")
    except BaseException:
        file.close()
        raise


def _headers(sha256: str) -> dict[str, str]:
    return {"Accept-Ranges": "bytes", "ETag": f'"{sha256}"'}


def _size(file: BinaryIO) -> int:
    return file.seek(0, 2)


def _span(wanted: str | None, size: int) -> tuple[int, int] | None:
    """Return the first and the one after the last byte that are asked for; an empty span can't be given."""
    if wanted is None:
        return None
    found = _RANGE.match(wanted)
    if found is None or not (found[1] or found[2]):
        raise BadRequest("Range must read `bytes=first-last`; several at once are not given.")
    if not found[1]:
        return max(0, size - int(found[2])), size
    return int(found[1]), min(size, int(found[2]) + 1) if found[2] else size


async def _bytes(file: BinaryIO, start: int, end: int, uploads: Uploads) -> AsyncIterator[bytes]:
    with file:
        await uploads.in_thread(lambda: file.seek(start))
        while start < end and (data := await uploads.in_thread(partial(file.read, min(_CHUNK, end - start)))):
            start += len(data)
            yield data
