"""Many who wait and follow hold nobody up; a server out of descriptors says so and recovers."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from tests.control.given import until
from tests.server.given import lines_of, orders, register, run_to_its_end, submit
from tests.server.running import Serve, Server


def test_fifty_followers_hold_up_neither_callers_nor_workers(server: Server) -> None:
    with server.asked_by("admin") as client, ThreadPoolExecutor(50) as pool:
        worker = register(client)
        followed = submit(client, name="followed")
        texts = [f"line {number}" for number in range(200)]
        followers = [pool.submit(follow, server, followed["id"]) for _ in range(50)]
        until(lambda: "gpulayer_waiting 50.0" in client.get("/metrics").text, within_s=30)

        jobs = [submit(client, name=f"job {number}") for number in range(20)]
        for first in range(0, 200, 20):
            lines = lines_of(followed["id"], texts[first : first + 20], first=first)
            assert client.post(f"/v1/jobs/{followed['id']}/lines", json=lines).status_code == 204
        for job in [followed, *jobs]:
            assert [order["job_id"] for order in orders(client, worker)["orders"]] == [job["id"]]
            run_to_its_end(client, worker, job["id"])
        for follower in followers:
            assert follower.result(timeout=60) == texts
        assert {client.get(f"/v1/jobs/{job['id']}").json()["state"] for job in jobs} == {"succeeded"}


def follow(server: Server, job_id: str) -> list[str]:
    """Follow a job to its end as a client does; return its lines."""
    seen = {"event": 0, "lines": 0, "version": 0}
    found: list[str] = []
    with server.asked_by("user") as client:
        while True:
            news = client.get(f"/v1/jobs/{job_id}/news", params={**seen, "timeout_s": 30}).json()
            found += [line["text"] for line in news["lines"]]
            seen = news["cursor"]
            if news["job"]["state"] == "succeeded" and not news["lines"]:
                return found


def test_a_reader_who_never_reads_holds_up_nobody(server: Server) -> None:
    with server.asked_by("admin") as client:
        worker = register(client)
        job = submit(client)
        for first in range(0, 50_000, 5_000):
            lines = lines_of(job["id"], ["x" * 300] * 5_000, first=first)
            assert client.post(f"/v1/jobs/{job['id']}/lines", json=lines).status_code == 204
        with socket.create_connection(("127.0.0.1", server.port)) as slow:
            slow.sendall(request(server, f"/v1/jobs/{job['id']}/lines"))
            assert slow.recv(1)
            run_to_its_end(client, worker, job["id"])
            assert client.get(f"/v1/jobs/{job['id']}").json()["state"] == "succeeded"


def test_a_client_who_hangs_up_stops_waiting(server: Server) -> None:
    with server.asked_by("admin") as client:
        job = submit(client)
        seen = client.get(f"/v1/jobs/{job['id']}/news").json()["cursor"]
        asked = "&".join(f"{name}={value}" for name, value in {**seen, "timeout_s": 60}.items())
        with socket.create_connection(("127.0.0.1", server.port)) as waiting:
            waiting.sendall(request(server, f"/v1/jobs/{job['id']}/news?{asked}"))
            until(lambda: "gpulayer_waiting 1.0" in client.get("/metrics").text)
        until(lambda: "gpulayer_waiting 0.0" in client.get("/metrics").text)


def request(server: Server, path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.token()}\r\n\r\n".encode()


def test_more_connections_than_there_are_descriptors_are_answered_and_do_not_last(serve: Serve) -> None:
    server = serve(open_files=256)
    with server.asked_by("admin") as client:
        worker = register(client)
        with ExitStack() as held:
            connections = [held.enter_context(socket.create_connection(("127.0.0.1", server.port))) for _ in range(400)]
            answers = [ask_raw(each) for each in connections]
        assert b"HTTP/1.1 200 OK" in answers
        assert b"HTTP/1.1 503 Service Unavailable" in answers
        job = submit(client)
        assert orders(client, worker)["orders"][0]["job_id"] == job["id"]
        run_to_its_end(client, worker, job["id"])


def ask_raw(connection: socket.socket) -> bytes:
    """Return how the answer begins; nothing when the connection was broken."""
    connection.settimeout(60)
    try:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        return connection.recv(4096).partition(b"\r\n")[0]
    except ConnectionError:
        return b""
