"""The HTTP application: who may ask what, what is refused with which status, and how questions wait."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from gpulayer.control.server.quota import MARK, Quota
from gpulayer.control.server.rates import Rate
from gpulayer.control.store.conflict import Conflict
from gpulayer.errors import LogFull, from_wire
from tests.control.given import a_worker, some_lines
from tests.control.server.asked import Asked
from tests.server.given import a_job, digest, lines_of

REMOTE = {"target": "remote"}


def told(answer: httpx.Response) -> tuple[int, str]:
    """Return the status and the code of an error."""
    return answer.status_code, from_wire(answer.json()["error"]).code


def a_queued_job(asked: Asked, **fields: Any) -> str:
    return str(asked.one("POST", "/v1/jobs", json=a_job(**fields)).json()["id"])


def test_without_a_token_only_health_is_told(asked: Asked) -> None:
    for path in ("/healthz", "/readyz", "/metrics"):
        assert asked.one("GET", path, token="").status_code == 200
    for path in ("/v1/jobs", "/v1/about", "/v1/openapi.json", "/v1/workers", f"/v1/blobs/{'0' * 64}"):
        answer = asked.one("GET", path, token="")
        assert told(answer) == (401, "unauthorized")
        assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert told(asked.one("GET", "/v1/jobs", token="glt_" + "x" * 43)) == (401, "unauthorized")


@pytest.mark.parametrize(
    ("method", "path"),
    [("DELETE", "/v1/workers/wkr-1"), ("POST", "/v1/workers/wkr-1/leave"), ("GET", "/v1/workers/wkr-1/orders")],
)
def test_a_user_may_not_do_what_is_an_admins_or_a_workers(asked: Asked, method: str, path: str) -> None:
    assert told(asked.one(method, path, token=asked.token("user"))) == (403, "forbidden")


def test_what_can_not_be_asked_for_is_refused_with_its_own_error(asked: Asked) -> None:
    def submitted(**job: Any) -> httpx.Response:
        return asked.one("POST", "/v1/jobs", json={"job": {"kind": "command", "command": ["true"], **job}})

    assert told(submitted(command=[])) == (422, "entrypoint_missing")
    assert told(submitted(timeout_s=-1)) == (422, "invalid_count")
    unknown = submitted(bogus=1)
    assert told(unknown) == (422, "invalid_job")
    assert "bogus" in unknown.json()["error"]["sentence"]
    wrong = submitted(priority="high")
    assert told(wrong) == (400, "bad_request")
    assert list(wrong.json()["error"]["facts"]["fields"]) == ["body.job.command.priority"]
    assert told(asked.one("POST", "/v1/jobs", content=b"{not json")) == (400, "bad_request")
    assert told(submitted(placement=REMOTE)) == (422, "unschedulable")
    assert told(submitted(secrets=["NOT_THERE"], placement=REMOTE)) == (404, "secret_not_found")


def test_what_is_not_there_is_not_found(asked: Asked) -> None:
    assert told(asked.one("GET", "/v1/jobs/job-0")) == (404, "job_not_found")
    assert told(asked.one("GET", "/v1/jobs/job-0/news")) == (404, "job_not_found")
    assert told(asked.one("GET", f"/v1/blobs/{'0' * 64}")) == (404, "blob_not_found")
    assert asked.one("HEAD", f"/v1/blobs/{'0' * 64}").status_code == 404
    assert told(asked.one("POST", "/v1/workers/nobody/drain")) == (404, "worker_not_found")
    assert told(asked.one("GET", "/v1/nothing")) == (404, "not_found")
    assert told(asked.one("PATCH", "/v1/jobs")) == (405, "bad_request")


def test_numbers_and_names_that_no_plane_can_store_are_bad_requests(asked: Asked) -> None:
    job_id = a_queued_job(asked)
    lines = lines_of(job_id, ["x"], first=2**70)
    assert told(asked.one("POST", f"/v1/jobs/{job_id}/lines", json=lines)) == (400, "bad_request")
    assert told(asked.one("GET", "/v1/jobs", params={"limit": 10**6})) == (400, "bad_request")
    assert told(asked.one("PUT", "/v1/callers/prc-1", json={})) == (400, "bad_request")


def test_a_job_is_ended_for_a_reason_that_somebody_outside_can_have(asked: Asked) -> None:
    path = f"/v1/jobs/{a_queued_job(asked)}/cancel"
    assert told(asked.one("POST", path, json={"reason": "done"})) == (400, "bad_request")
    assert asked.one("POST", path, json={"reason": "caller_gone"}).json()["reason"] == "caller_gone"


def test_lists_are_limited_and_filtered_by_owner(asked: Asked) -> None:
    mine = [a_queued_job(asked) for _ in range(3)]
    other = asked.one("POST", "/v1/jobs", json={**a_job(), "owner": "prc-0123456789ab"}).json()["id"]
    assert [job["id"] for job in asked.one("GET", "/v1/jobs", params={"limit": 2}).json()] == [other, mine[2]]
    asked.one("POST", f"/v1/jobs/{mine[0]}/cancel", json={})
    found = asked.one("GET", "/v1/jobs", params={"owner": "prc-0123456789ab", "unended": True}).json()
    assert [job["id"] for job in found] == [other]


def test_a_body_that_is_too_large_is_refused_whether_or_not_it_says_so(asked: Asked) -> None:
    job_id = a_queued_job(asked)
    path = f"/v1/jobs/{job_id}/lines"
    assert told(asked.one("POST", path, content=b" " * (4 * 1024 * 1024 + 1))) == (413, "message_too_large")

    async def pieces() -> Any:
        for _ in range(5):
            yield b" " * 1024 * 1024

    assert told(asked.one("POST", path, content=pieces())) == (413, "message_too_large")
    too_many = lines_of(job_id, ["x"] * 10_001)
    assert told(asked.one("POST", path, json=too_many)) == (400, "bad_request")


def test_who_asks_too_fast_is_told_when_to_ask_again_and_others_are_not(tmp_path: Path) -> None:
    asked = Asked(tmp_path / "plane", rate=Rate(per_s=0.5, burst=3))
    try:
        assert [asked.one("GET", "/v1/jobs").status_code for _ in range(4)] == [200, 200, 200, 429]
        refused = asked.one("GET", "/v1/jobs")
        assert told(refused) == (429, "plane_busy")
        assert 0 < float(refused.headers["Retry-After"]) <= 2
        assert asked.one("GET", "/v1/jobs", token=asked.token("user")).status_code == 200
        assert asked.one("GET", "/healthz", token="").status_code == 200
    finally:
        asked.close()


def test_a_plane_that_stops_answers_that_it_does(asked: Asked) -> None:
    asked.plane.waits.close()
    assert told(asked.one("GET", "/v1/jobs")) == (503, "plane_busy")
    assert asked.one("GET", "/readyz").status_code == 503
    assert asked.one("GET", "/healthz").status_code == 200


def test_a_write_that_gave_way_to_another_may_be_asked_for_again(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    def gives_way(*_: object, **__: object) -> None:
        raise Conflict("deadlock detected")

    monkeypatch.setattr(asked.plane, "register", gives_way)
    worker = a_worker(origin="existing")
    answer = asked.one("PUT", f"/v1/workers/{worker.id}", json=worker.model_dump(mode="json"))
    assert told(answer) == (503, "plane_busy")
    assert "deadlock" not in answer.text
    assert float(answer.headers["Retry-After"]) < 1


def test_a_fault_is_told_by_an_id_that_the_log_explains(
    asked: Asked, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise ZeroDivisionError("the reason")

    monkeypatch.setattr(asked.plane, "jobs", fails)
    answer = asked.one("GET", "/v1/jobs")
    assert answer.status_code == 500
    assert "reason" not in answer.text
    [fault] = [record for record in caplog.records if record.name == "gpulayer.server"]
    assert fault.facts["fault"] == answer.json()["error"]["facts"]["fault"]  # type: ignore[attr-defined]
    assert fault.exc_info is not None


def test_news_come_as_soon_as_there_are_any(asked: Asked) -> None:
    job_id = a_queued_job(asked)

    async def story(client: httpx.AsyncClient) -> tuple[list[str], httpx.Response]:
        seen = (await client.get(f"/v1/jobs/{job_id}/news")).json()["cursor"]
        order: list[str] = []

        async def follow() -> httpx.Response:
            answer = await client.get(f"/v1/jobs/{job_id}/news", params={**seen, "timeout_s": 60})
            order.append("heard")
            return answer

        following = asyncio.create_task(follow())
        while not asked.plane.waits.waiting:
            await asyncio.sleep(0)
        order.append("said")
        await client.post(f"/v1/jobs/{job_id}/lines", json=lines_of(job_id, ["hello"]))
        return order, await following

    order, answer = asked.ask(story)
    assert order == ["said", "heard"]
    assert [line["text"] for line in answer.json()["lines"]] == ["hello"]
    assert asked.plane.waits.waiting == 0


def test_orders_come_as_soon_as_a_job_is_placed(asked: Asked) -> None:
    worker = a_worker(origin="existing")
    asked.plane.register(worker)
    seen = asked.plane.orders(worker.id).version

    async def story(client: httpx.AsyncClient) -> httpx.Response:
        asking = client.get(f"/v1/workers/{worker.id}/orders", params={"seen": seen, "timeout_s": 60})
        waiting = asyncio.create_task(asking)
        while not asked.plane.waits.waiting:
            await asyncio.sleep(0)
        await client.post("/v1/jobs", json=a_job())
        return await waiting

    assert len(asked.ask(story).json()["orders"]) == 1


def test_lines_are_streamed_and_stored_once(asked: Asked) -> None:
    job_id = a_queued_job(asked)
    for _ in range(2):
        asked.one("POST", f"/v1/jobs/{job_id}/lines", json=lines_of(job_id, [f"line {n}" for n in range(1200)]))
    answer = asked.one("GET", f"/v1/jobs/{job_id}/lines")
    assert answer.headers["Content-Type"] == "application/x-ndjson"
    assert [json.loads(line)["text"] for line in answer.text.splitlines()] == [f"line {n}" for n in range(1200)]
    tail = asked.one("GET", f"/v1/jobs/{job_id}/lines", params={"tail": 2})
    assert [json.loads(line)["seq"] for line in tail.text.splitlines()] == [1198, 1199]
    for wrong in (lines_of("job-other", ["x"]), [{**lines_of(job_id, ["x"])[0], "seq": -1}]):
        assert told(asked.one("POST", f"/v1/jobs/{job_id}/lines", json=wrong)) == (400, "bad_request")


@pytest.mark.parametrize("quota", [Quota(lines=25), Quota(bytes=200)])
def test_a_log_that_is_full_says_so_once_and_its_worker_goes_on(tmp_path: Path, quota: Quota) -> None:
    asked = Asked(tmp_path / "plane", log_quota=quota)
    job_id = asked.plane.submit(_command()).id
    answers = []
    for first in range(0, 100, 10):
        lines = lines_of(job_id, [f"{n} {digest(str(n).encode())}" for n in range(first, first + 10)], first=first)
        answers.append(asked.one("POST", f"/v1/jobs/{job_id}/lines", json=lines))
    statuses = [answer.status_code for answer in answers]
    assert statuses == sorted(statuses)
    assert (statuses[0], statuses[-1]) == (204, 413)
    assert answers[-1].json()["error"]["code"] == "log_full"
    asked.close()
    again = Asked(tmp_path / "plane", log_quota=quota)
    with pytest.raises(LogFull):
        again.plane.append_lines(job_id, some_lines(job_id, ["more"], first=200))
    stored = [line.text for line in again.plane.lines(job_id)]
    again.close()
    assert 10 <= len(stored) <= 31
    assert [text.startswith(MARK) for text in stored] == [False] * (len(stored) - 1) + [True]


def _command() -> Any:
    from tests.control.given import a_command

    return a_command(placement=REMOTE, on_unschedulable="queue")


def test_metrics_count_jobs_workers_requests_and_lines(asked: Asked) -> None:
    job_id = a_queued_job(asked)
    asked.plane.append_lines(job_id, some_lines(job_id, ["a", "b"]))
    asked.plane.register(a_worker(origin="provider"))
    text = asked.one("GET", "/metrics", token="").text
    for wanted in (
        'gpulayer_jobs{state="queued"} 1.0',
        'gpulayer_workers{state="online"} 1.0',
        "gpulayer_queue_length 1.0",
        "gpulayer_log_lines_total 2.0",
        'gpulayer_requests_total{method="POST",route="/v1/jobs",status="200"} 1.0',
    ):
        assert wanted in text.splitlines()


def test_callers_are_known_until_they_leave(asked: Asked) -> None:
    path = "/v1/callers/prc-0123456789ab"
    for _ in range(2):
        assert asked.one("PUT", path, json={"kind": "caller", "pid": 7, "host": "there"}).status_code == 204
    assert asked.one("DELETE", path).status_code == 204
    assert told(asked.one("DELETE", "/v1/callers/prc-000000000000")) == (404, "not_found")


def test_a_report_on_files_of_another_task_is_refused(asked: Asked) -> None:
    worker = a_worker(origin="existing")
    asked.plane.register(worker)
    job_id = a_queued_job(asked)
    about = {"worker_id": worker.id, "incarnation": "first", "job_id": job_id, "attempt": 1, "node_rank": 0}
    manifest = {"job_id": "job-other", "attempt": 1, "node_rank": 0, "entries": []}
    answer = asked.one("POST", "/v1/reports", json={**about, "kind": "outputs", "manifest": manifest})
    assert told(answer) == (400, "bad_request")
