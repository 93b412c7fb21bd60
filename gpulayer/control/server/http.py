"""The plane as an HTTP application: its routes, behind what holds for every request."""

from __future__ import annotations

from fastapi import FastAPI

from gpulayer.control.server import statuses
from gpulayer.control.server.hosted import HostedPlane
from gpulayer.control.server.metrics import Metrics
from gpulayer.control.server.rates import Rate, Rates
from gpulayer.control.server.rim import Rim
from gpulayer.control.server.routes import (
    about,
    artifacts,
    blobs,
    callers,
    calls,
    jobs,
    join,
    lines,
    reports,
    secrets,
    tokens,
    workers,
)
from gpulayer.control.server.uploads import Uploads

ROUTES = (about, jobs, calls, lines, artifacts, blobs, workers, reports, callers, join, secrets, tokens)


def application(plane: HostedPlane, uploads: Uploads, *, fingerprint: str = "", rate: Rate | None = None) -> Rim:
    """Return the application over a plane; ``fingerprint`` is that of a certificate that nobody else vouches for."""
    app = api(plane, uploads, fingerprint)
    app.state.metrics = metrics = Metrics(plane)
    return Rim(app, metrics, Rates(rate or Rate()), lambda: plane.waits.closed)


def api(plane: HostedPlane, uploads: Uploads, fingerprint: str) -> FastAPI:
    """Return the routes over a plane."""
    app = FastAPI(
        title="GPUlayer",
        version=about.VERSION,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        telemetry={"tracing": False, "metrics": False, "logs": False},  # none, and no looking for it at every request
    )
    app.state.plane = plane
    app.state.uploads = uploads
    app.state.fingerprint = fingerprint
    for each in ROUTES:
        app.include_router(each.router, responses=statuses.DECLARED)
    statuses.install(app)
    return app
