"""Jobs: submitted, read, awaited, cancelled, explained, removed."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from gpulayer.control.engine.rights import Action
from gpulayer.control.server.asking import LONGEST_WAIT_S, Asked, Asking, Hosted, as_json, hung_up, in_thread
from gpulayer.spec.job import Job
from gpulayer.spec.news import Cursor, News
from gpulayer.spec.records import Explanation, JobRecord, JobSize
from gpulayer.spec.states import Reason

router = APIRouter(prefix="/v1", tags=["jobs"])

MOST_JOBS = 1000
Owner = Annotated[str, Field(max_length=32)]


class Submission(Asked):
    """A job to be queued; ``key`` makes a repeated submission the same job, ``owner`` is the caller's id."""

    job: Job
    key: Annotated[str, Field(max_length=200)] = ""
    owner: Owner | None = None


class SpecToExplain(Asked):
    job: Job
    owner: Owner | None = None


class Cancellation(Asked):
    """Why somebody who is not the plane itself ends a job."""

    reason: Literal[Reason.CANCELLED_BY_USER, Reason.CALLER_GONE] = Reason.CANCELLED_BY_USER
    kill: bool = False


@router.post("/jobs", response_model=JobRecord)
def submit(body: Submission, plane: Hosted, asker: Asking) -> Response:
    asker.may(Action.SUBMIT)
    return as_json(plane.submit(body.job, key=body.key, owner=body.owner))


@router.get("/jobs", response_model=list[JobRecord])
def jobs(
    plane: Hosted,
    asker: Asking,
    limit: Annotated[int, Query(ge=1, le=MOST_JOBS)] = 100,
    owner: Annotated[str, Query(max_length=32)] | None = None,
    unended: bool = False,
    ended_before: Annotated[float, Query(ge=0)] | None = None,
) -> Response:
    """List the newest jobs; those of an ``owner`` that have not ended, with ``unended``; or the oldest that have."""
    asker.may(Action.READ_JOBS)
    if ended_before is not None:
        return as_json(plane.ended_jobs(ended_before, limit=limit))
    found = plane.unended_jobs(owner) if unended and owner else plane.jobs(limit=limit)
    return as_json([job for job in found if owner in (None, job.owner) and not (unended and job.state.terminal)])


@router.get("/jobs/{job_id}", response_model=JobRecord)
def job(job_id: str, plane: Hosted, asker: Asking) -> Response:
    asker.may(Action.READ_JOBS)
    return as_json(plane.job(job_id))


@router.get("/jobs/{job_id}/news", response_model=News)
async def news(
    request: Request,
    job_id: str,
    plane: Hosted,
    asker: Asking,
    event: Annotated[int, Query(ge=0, le=2**53)] = 0,
    lines: Annotated[int, Query(ge=0, le=2**53)] = 0,
    version: Annotated[int, Query(ge=0, le=2**53)] = 0,
    timeout_s: Annotated[float, Query(ge=0)] = 0.0,
    with_lines: bool = True,
) -> Response:
    """Wait until anything changed after the cursor, or the timeout passed."""
    asker.may(Action.READ_JOBS)
    cursor = Cursor(event=event, lines=lines, version=version)
    full_id = await in_thread(lambda: plane.full_id(job_id))
    look = plane.look_for_news(full_id, cursor, lines=with_lines)
    wait_s = min(timeout_s, LONGEST_WAIT_S)
    found = await plane.waits.wait_aside(full_id, look, wait_s, lambda: hung_up(request))
    if found is None:
        found = await in_thread(lambda: plane.news_now(full_id, cursor, lines=with_lines))
    return as_json(found)


@router.post("/jobs/{job_id}/cancel", response_model=JobRecord)
def cancel(job_id: str, body: Cancellation, plane: Hosted, asker: Asking) -> Response:
    asker.may(Action.CHANGE_JOBS)
    return as_json(plane.cancel(job_id, reason=body.reason, kill=body.kill))


@router.get("/jobs/{job_id}/size", response_model=JobSize)
def size(job_id: str, plane: Hosted, asker: Asking) -> Response:
    asker.may(Action.READ_JOBS)
    return as_json(plane.size(job_id))


@router.get("/jobs/{job_id}/explain", response_model=Explanation)
def explain(job_id: str, plane: Hosted, asker: Asking) -> Response:
    asker.may(Action.READ_JOBS)
    return as_json(plane.explain(job_id))


@router.post("/explain", response_model=Explanation)
def explain_spec(body: SpecToExplain, plane: Hosted, asker: Asking) -> Response:
    """Answer for a job that was not submitted."""
    asker.may(Action.SUBMIT)
    return as_json(plane.explain_spec(body.job, owner=body.owner))


@router.delete("/jobs/{job_id}", status_code=204)
def remove(job_id: str, plane: Hosted, asker: Asking) -> None:
    asker.may(Action.CHANGE_JOBS)
    plane.remove(job_id)
