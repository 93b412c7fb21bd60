"""10,000 simulated workers on one server: how soon it answers a renewal, how soon a job reaches its worker, at what cost.

Each worker has a connection and a token of its own and polls as a real one does: three questions a lease, which the server
keeps until there is something to say. They join over a while, so that their renewals are spread over a lease; meanwhile jobs
come. The server runs for a lease after the last has joined: one that was not heard would be lost by then.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import json
import os
import secrets
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rotation import at, keep, machine
from standing import clean, server_in, token_for

from gpulayer.control.store import tokens
from gpulayer.control.store.store import open_database
from gpulayer.spec.job import CommandJob
from gpulayer.spec.tokens import TokenRecord
from gpulayer.spec.workers import Capabilities, WorkerInfo

MUST_S = 0.25
FLEET = int(os.environ.get("BENCH_FLEET", "10000"))
LEASE_S = float(os.environ.get("BENCH_LEASE_S", "90"))
JOIN_S = float(os.environ.get("BENCH_JOIN_S", "40"))
JOBS_PER_S = 2.0


class Connection:
    """HTTP/1.1 over one connection that stays: no more than it takes, for the machine has the server to run as well."""

    def __init__(self, port: int, token: str) -> None:
        self._port = port
        self._token = token
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, method: str, path: str, body: bytes = b"") -> bytes:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 20)
        reader, writer = self._streams
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self._token}\r\n"
        writer.write(f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = next((int(line.split(":")[1]) for line in answer.split("\r\n") if line.startswith("content-length")), 0)
        found = await reader.readexactly(length)
        if not answer.startswith("http/1.1 2"):
            raise SystemExit(f"{method} {path}: {answer.splitlines()[0]} {found[:300]!r}")
        return found

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()


class Seen:
    """What was measured, in seconds."""

    def __init__(self) -> None:
        self.joined: list[float] = []
        self.renewed: list[float] = []
        self.delivered: list[float] = []
        self.requests = 0
        self.placed_at: dict[str, float] = {}
        self.delivered_at: dict[str, float] = {}


class Worker:
    """A worker that says each job it is given is done."""

    def __init__(self, number: int, port: int, token: str, seen: Seen) -> None:
        self.id = f"wkr-{number:012x}"
        self._number = number
        self._connection = Connection(port, token)
        self._seen = seen

    async def run(self, after_s: float) -> None:
        await asyncio.sleep(after_s)
        able = Capabilities(machine=f"machine-{self._number}", python="3.11.7", cpus=8, memory_gb=32.0)
        info = WorkerInfo(id=self.id, name=f"w{self._number}", origin="existing", incarnation="one", capabilities=able)
        began = time.perf_counter()
        await self._connection.ask("PUT", f"/v1/workers/{self.id}", info.model_dump_json().encode())
        self._seen.joined.append(time.perf_counter() - began)
        version, wait_s = 0, 0.0
        while True:
            began = time.perf_counter()
            path = f"/v1/workers/{self.id}/orders?seen={version}&timeout_s={wait_s}&incarnation=one"
            orders = json.loads(await self._connection.ask("GET", path))
            took = time.perf_counter() - began
            self._seen.requests += 1
            if orders["fenced"]:
                raise SystemExit(f"{self.id} was lost")
            if orders["version"] == version:
                self._seen.renewed.append(took - wait_s)
            version, wait_s = orders["version"], orders["lease_s"] / 3
            for order in orders["orders"]:
                await self._do(order)

    async def _do(self, order: dict[str, object]) -> None:
        job_id = str(order["job_id"])
        if job_id in self._seen.delivered_at:
            return
        self._seen.delivered_at[job_id] = time.time()
        about = {"worker_id": self.id, "incarnation": "one", "job_id": job_id, "attempt": 1, "node_rank": 0}
        for told in ({"kind": "ready"}, {"kind": "running"}, {"kind": "ended", "state": "succeeded", "reason": "done"}):
            await self._connection.ask("POST", "/v1/reports", json.dumps({**about, **told}).encode())

    def close(self) -> None:
        self._connection.close()


async def give_jobs(port: int, token: str, seen: Seen) -> None:
    """Submit a job at a time, and see when it was placed."""
    caller = Connection(port, token)
    job = CommandJob(command=("true",), placement={"target": "remote"}, on_unschedulable="queue")
    try:
        while True:
            began = time.perf_counter()
            said = {"job": job.model_dump(mode="json"), "key": secrets.token_hex(8), "owner": None}
            record = json.loads(await caller.ask("POST", "/v1/jobs", json.dumps(said).encode()))
            seen.placed_at[record["id"]] = record["tasks"][0]["assigned_at"]
            await asyncio.sleep(max(0.0, 1 / JOBS_PER_S - (time.perf_counter() - began)))
    finally:
        caller.close()


def make_tokens(folder: Path) -> list[str]:
    """Make every worker's credential in the database, as joining would."""
    made = [f"glt_{secrets.token_urlsafe(32)}" for _ in range(FLEET)]
    (folder / "server").mkdir()
    store = open_database(f"sqlite:///{folder / 'server' / 'plane.db'}", folder / "server")
    with store.write() as db:
        for number, token in enumerate(made):
            subject = f"wkr-{number:012x}"
            record = TokenRecord(id=f"tok-{number:012x}", role="worker", subject=subject, name=subject, created_at=time.time())
            tokens.add(db, record, hashlib.sha256(token.encode()).hexdigest())
    store.close()
    return made


async def play(port: int, admin: str, given: list[str], pid: int) -> dict[str, Any]:
    seen = Seen()
    fleet = [Worker(number, port, token, seen) for number, token in enumerate(given)]
    running = [asyncio.create_task(worker.run(JOIN_S * number / FLEET)) for number, worker in enumerate(fleet)]
    watched = [*running, asyncio.create_task(_until_joined(seen))]
    await _first(watched)
    print(f"  all {FLEET} have joined, 99% within {at(0.99, seen.joined) * 1000:.0f} ms", file=sys.stderr)
    jobs = asyncio.create_task(give_jobs(port, admin, seen))
    began, spent, asked = time.perf_counter(), cpu_s(pid), seen.requests
    await _first([*running, jobs, asyncio.create_task(asyncio.sleep(LEASE_S + 2))])
    took = time.perf_counter() - began
    cores, rate = (cpu_s(pid) - spent) / took, (seen.requests - asked) / took
    jobs.cancel()
    caller = Connection(port, admin)
    workers = json.loads(await caller.ask("GET", "/v1/workers"))
    caller.close()
    for task in running:
        task.cancel()
    await asyncio.gather(*running, jobs, return_exceptions=True)
    for worker in fleet:
        worker.close()
    late = [seen.delivered_at[job] - placed for job, placed in seen.placed_at.items() if job in seen.delivered_at]
    online = sum(worker["state"] == "online" for worker in workers)
    return {
        "leases_kept": online,
        "renewal_s_p50": at(0.5, seen.renewed),
        "renewal_s_p99": at(0.99, seen.renewed),
        "delivery_s_p50": at(0.5, late),
        "delivery_s_p99": at(0.99, late),
        "jobs": len(late),
        "requests_per_s": rate,
        "server_cores": cores,
    }


async def _until_joined(seen: Seen) -> None:
    while len(seen.joined) < FLEET:
        await asyncio.sleep(0.1)


async def _first(tasks: list[asyncio.Task[None]]) -> None:
    """Wait until one of them has ended, the last of them if all is well."""
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder, environ = Path(name), {**clean(), "GPULAYER_HOME": str(Path(name) / "home")}
        given = make_tokens(folder)
        with server_in(folder, environ, "--lease-s", str(LEASE_S)) as server:
            admin = token_for("admin", folder, environ)
            gc.freeze()
            found = asyncio.run(play(int(server.url.rpartition(":")[2]), admin, given, server.pid))
    row = {"name": "fleet", "workers": FLEET, "lease_s": LEASE_S, "must_s": MUST_S, **found, "machine": machine()}
    keep("fleet", row)
    show(row)


def show(row: dict[str, Any]) -> None:
    renewal, delivery = row["renewal_s_p99"], row["delivery_s_p99"]
    print(
        f"fleet: {row['leases_kept']} of {FLEET} leases of {LEASE_S:g} s kept; renewal to answer "
        f"{row['renewal_s_p50'] * 1000:.0f} ms, 99% within {renewal * 1000:.0f} ({renewal / MUST_S:.2f} of the {MUST_S:g} s "
        f"allowed); assignment to delivery of {row['jobs']} jobs {row['delivery_s_p50'] * 1000:.0f} ms, 99% within "
        f"{delivery * 1000:.0f} ({delivery / MUST_S:.2f}); {row['requests_per_s']:.0f} questions/s on "
        f"{row['server_cores']:.2f} cores ({row['machine']})",
        flush=True,
    )


if __name__ == "__main__":
    main()
