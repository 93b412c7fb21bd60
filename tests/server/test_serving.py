"""A server's life: it says when it answers, is alone on its database, stops in good order, and comes back with everything."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import threading
from pathlib import Path

import httpx
import pytest

from tests.server.given import lines_of, orders, register, run_to_its_end, submit
from tests.server.running import Serve, Server


def test_a_job_goes_from_a_caller_to_a_worker_and_back(server: Server) -> None:
    with server.asked_by("user") as caller, server.asked_by("admin") as worker_side:
        worker = register(worker_side)
        job = submit(caller, name="hello")
        [order] = orders(worker_side, worker)["orders"]
        assert (order["job_id"], job["state"]) == (job["id"], "running")
        assert worker_side.post(f"/v1/jobs/{job['id']}/lines", json=lines_of(job["id"], ["hi"])).status_code == 204
        run_to_its_end(worker_side, worker, job["id"])
        news = caller.get(f"/v1/jobs/{job['id']}/news").json()
        assert news["job"]["state"] == "succeeded"
        assert [line["text"] for line in news["lines"]] == ["hi"]
        assert [event["kind"] for event in news["events"]][:2] == ["submitted", "placed"]
        assert [json.loads(line)["text"] for line in caller.get(f"/v1/jobs/{job['id']}/lines").iter_lines()] == ["hi"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_stops_with_status_0_and_lets_waiting_questions_go_with_an_answer(server: Server, number: int) -> None:
    with server.asked_by("admin") as client:
        worker = register(client)
        version = orders(client, worker)["version"]
        answered: list[dict[str, object]] = []
        waiting = threading.Thread(target=lambda: answered.append(orders(client, worker, seen=version, timeout_s=60.0)))
        waiting.start()
        with server.asked_by("admin") as other:
            until_waiting(other)
        server.signal(number)
        status, log = server.ended()
        waiting.join()
    assert status == 0, log
    assert [found["orders"] for found in answered] == [[]]
    assert "Traceback" not in log


def test_its_log_tells_each_event_once_and_neither_successes_nor_secrets(server: Server) -> None:
    with server.asked_by("admin") as client:
        worker = register(client)
        job = submit(client, name="hello")
        run_to_its_end(client, worker, job["id"])
        made = client.post("/v1/tokens", json={"role": "user", "name": "ann"}).json()
        client.delete(f"/v1/tokens/{made['id']}")
        client.get("/v1/jobs/job-none")  # no id begins so
        client.delete(f"/v1/workers/{worker.id}")
    status, log = server.stop()
    assert status == 0
    told = [json.loads(line) for line in log.splitlines()]
    assert [each["event"] for each in told] == [
        *("started", "worker registered", "job submitted", "job placed", "job ended", "token created", "token revoked"),
        *("request", "worker removed", "stopping", "stopped"),
    ]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", each["at"]) for each in told)
    ended = next(each for each in told if each["event"] == "job ended")
    assert (ended["job_id"], ended["state"], ended["reason"]) == (job["id"], "succeeded", "done")
    assert made["token"] not in log


def until_waiting(client: httpx.Client) -> None:
    """Wait until a question waits at the server."""
    from tests.control.given import until

    until(lambda: "gpulayer_waiting 1.0" in client.get("/metrics").text)


def test_a_second_server_on_the_same_database_is_refused(server: Server) -> None:
    second = subprocess.run(Server(server.data).arguments(), capture_output=True, text=True, timeout=60)
    assert second.returncode == 1
    assert "Another server runs" in second.stderr
    assert httpx.get(f"{server.url}/healthz").status_code == 200


def test_a_port_that_is_taken_is_named(serve: Serve, server: Server, tmp_path: Path) -> None:
    second = subprocess.run(Server(tmp_path / "other").arguments(server.port), capture_output=True, text=True, timeout=60)
    assert second.returncode == 1
    assert str(server.port) in second.stderr


def test_everything_is_there_after_a_kill(server: Server) -> None:
    with server.asked_by("admin") as client:
        worker = register(client)
        job, waiting = submit(client), submit(client, resources={"cpus": 1})
        client.post(f"/v1/jobs/{job['id']}/lines", json=lines_of(job["id"], ["before"]))
    server.kill()
    server.start(server.port)
    with server.asked_by("admin") as client:
        assert [order["job_id"] for order in orders(client, worker)["orders"]] == [job["id"]]
        assert client.get(f"/v1/jobs/{job['id']}/log-marks", params={"attempt": 1, "node_rank": 0}).json() == {"0/stdout": 0}
        run_to_its_end(client, worker, job["id"])
        assert client.get(f"/v1/jobs/{waiting['id']}").json()["state"] == "running"
