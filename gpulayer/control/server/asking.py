"""What every route is given: the plane, and who asks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request, Response
from pydantic import BaseModel
from pydantic_core import to_json
from starlette.concurrency import run_in_threadpool

from gpulayer.control.engine.rights import Action
from gpulayer.control.server import auth
from gpulayer.control.server.auth import Principal
from gpulayer.control.server.hosted import HostedPlane
from gpulayer.control.server.uploads import Uploads
from gpulayer.spec.base import Spec

Found = TypeVar("Found")


class Asked(Spec, defer_build=False):
    """The body of a request. FastAPI hides a warning of pydantic's only while a route is made: bodies are built by then."""


async def the_plane(request: Request) -> HostedPlane:
    plane = request.app.state.plane
    assert isinstance(plane, HostedPlane)
    return plane


async def the_uploads(request: Request) -> Uploads:
    uploads = request.app.state.uploads
    assert isinstance(uploads, Uploads)
    return uploads


Hosted = Annotated[HostedPlane, Depends(the_plane)]
Receiving = Annotated[Uploads, Depends(the_uploads)]


LONGEST_WAIT_S = 300.0
"""No question waits longer, whatever it says: between them, proxies forget a connection."""


class Asker:
    """Who asks, and the way to find out what they may."""

    def __init__(self, plane: HostedPlane, principal: Principal) -> None:
        self.principal = principal
        self._plane = plane

    def may(
        self,
        action: Action,
        *,
        worker_id: str | None = None,
        job_id: str | None = None,
        tasks: Iterable[tuple[int, int]] = (),
        sha256: str = "",
    ) -> None:
        """Raise ``Forbidden`` unless they may."""
        self.principal.require(self._plane.store, action, worker_id=worker_id, job_id=job_id, tasks=tasks, sha256=sha256)


async def who_asks(request: Request, plane: Hosted) -> Asker:
    bearer = auth.bearer_of(request.headers.get("Authorization"))
    principal = auth.remembered(plane.store, bearer, time.time())  # the database's clock may have to be asked for
    if principal is None:
        principal = await in_thread(lambda: auth.authenticate(plane.store, bearer, plane.store.now()))
    request.state.principal = principal
    return Asker(plane, principal)


Asking = Annotated[Asker, Depends(who_asks)]


def as_json(value: BaseModel | list[Any] | dict[str, Any], status: int = 200) -> Response:
    """Answer with a value of ours: it was made valid, so it is written and not checked again."""
    return Response(to_json(value), status, media_type="application/json")


async def in_thread(ask: Callable[[], Found]) -> Found:
    """Ask the database from a handler that waits: it must not hold up the others."""
    return await run_in_threadpool(ask)


async def hung_up(request: Request) -> None:
    """Return when the client is gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
