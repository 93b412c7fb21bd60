"""Two servers on one PostgreSQL are one plane."""

from __future__ import annotations

import threading

from tests.control.given import until
from tests.postgres import Cluster
from tests.server.given import lines_of, orders, register, run_to_its_end, submit
from tests.server.running import Serve


def test_what_one_server_is_told_the_other_tells_who_waits_there(serve: Serve, postgres_url: str) -> None:
    one, other = serve(database=postgres_url), serve(database=postgres_url)
    with one.asked_by("admin") as here, other.asked_by("admin") as there:
        worker = register(there)
        version = orders(there, worker)["version"]
        given: list[str] = []
        waiting = threading.Thread(
            target=lambda: given.extend(order["job_id"] for order in orders(there, worker, seen=version)["orders"])
        )
        waiting.start()
        until(lambda: "gpulayer_waiting 1.0" in there.get("/metrics").text)
        job = submit(here)
        waiting.join()
        assert given == [job["id"]]

        seen = here.get(f"/v1/jobs/{job['id']}/news").json()["cursor"]
        there.post(f"/v1/jobs/{job['id']}/lines", json=lines_of(job["id"], ["from there"]))
        news = here.get(f"/v1/jobs/{job['id']}/news", params={**seen, "timeout_s": 30}).json()
        assert [line["text"] for line in news["lines"]] == ["from there"]
        run_to_its_end(there, worker, job["id"])
        assert here.get(f"/v1/jobs/{job['id']}").json()["state"] == "succeeded"


def test_a_job_submitted_to_both_at_once_under_one_key_is_one_job(serve: Serve, postgres_url: str) -> None:
    servers = [serve(database=postgres_url) for _ in range(2)]
    found: list[str] = []

    def ask(number: int) -> None:
        from tests.server.given import a_job

        with servers[number % 2].asked_by("user") as client:
            found.append(client.post("/v1/jobs", json={**a_job(), "key": "the same"}).json()["id"])

    for server in servers:
        server.token("user")
    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1


def test_one_that_is_killed_leaves_all_to_the_other(serve: Serve, postgres_url: str) -> None:
    one, other = serve(database=postgres_url), serve(database=postgres_url)
    with one.asked_by("admin") as here:
        worker = register(here)
        job = submit(here)
    one.kill()
    with other.asked_by("admin") as there:
        assert [order["job_id"] for order in orders(there, worker)["orders"]] == [job["id"]]
        run_to_its_end(there, worker, job["id"])
        assert there.get(f"/v1/jobs/{job['id']}").json()["state"] == "succeeded"


def test_while_the_database_is_away_it_says_so_and_then_goes_on(serve: Serve, postgres: Cluster, postgres_url: str) -> None:
    server = serve(database=postgres_url)
    with server.asked_by("admin") as client:
        job = submit(client)
        assert client.get("/readyz").status_code == 200
        postgres.stop()
        try:
            assert client.get("/readyz").status_code == 503
            assert client.get("/healthz").status_code == 200
            refused = client.get(f"/v1/jobs/{job['id']}")
            assert refused.status_code == 503
            assert float(refused.headers["Retry-After"]) > 0
        finally:
            postgres.start()
        until(lambda: client.get("/readyz").status_code == 200, within_s=30)
        worker = register(client)
        assert [order["job_id"] for order in orders(client, worker)["orders"]] == [job["id"]]
