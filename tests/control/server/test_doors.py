"""Tokens, secrets and joining over HTTP."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from gpulayer.artifacts.store import BlobStore
from gpulayer.control.server import auth, statuses
from gpulayer.control.server.hosted import HostedPlane
from gpulayer.control.server.keeping import Keeper
from gpulayer.control.server.routes import join, secrets, tokens
from gpulayer.control.store import jobs
from gpulayer.control.store.store import Store, open_store
from gpulayer.spec.states import TaskState
from gpulayer.spec.tokens import TokenRequest
from tests.control.given import a_command, a_record, a_task

VALUE = "hunter2-hunter2"
KEY = "k" * 43
FINGERPRINT = "f" * 64
Ask = Callable[..., Any]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def ask(store: Store, tmp_path: Path) -> Ask:
    """Ask with the token of a role, or one given: ``ask("GET", "/v1/tokens", "admin")``."""
    app = FastAPI()
    app.state.plane = HostedPlane(store, Keeper(store, BlobStore((tmp_path / "blobs").as_uri())), tmp_path / "secrets.key")
    app.state.fingerprint = FINGERPRINT
    statuses.install(app)
    for routes in (tokens, secrets, join):
        app.include_router(routes.router)
    held = {role: auth.create(store, TokenRequest(role=role), store.now()).token for role in ("admin", "user", "join")}  # type: ignore[arg-type]

    async def answer(method: str, path: str, token: str, json: Any) -> httpx.Response:
        headers = {"Authorization": b"Bearer " + token.encode()} if token else {}
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://plane") as client:
            return await client.request(method, path, json=json, headers=headers)

    return lambda method, path, role="", json=None: asyncio.run(answer(method, path, held.get(role, role), json))


def a_worker_of(ask: Ask, store: Store, state: TaskState) -> None:
    """Let the key KEY join, and give its worker a task of job-1, which names a secret."""
    joined = ask("POST", "/v1/join", "join", {"key_hash": hashlib.sha256(KEY.encode()).hexdigest()})
    record = a_record(id="job-1", attempt=1, spec=a_command(secrets=("A",)), version=1)
    task = a_task(record, worker_id=joined.json()["worker_id"], state=state)
    with store.write() as db:
        jobs.add(db, record, ())
        jobs.save(db, record, record.model_copy(update={"tasks": (task,)}), ())


def test_an_admin_makes_a_token_that_works_until_it_is_revoked(ask: Ask) -> None:
    made = ask("POST", "/v1/tokens", "admin", {"role": "user", "name": "ci", "ttl_s": 60})
    assert made.status_code == 201
    assert made.headers["Cache-Control"] == "no-store"
    found = made.json()
    assert found["token"].endswith("." + FINGERPRINT)
    assert ask("GET", "/v1/secrets", found["token"]).status_code == 200

    listed = ask("GET", "/v1/tokens", "admin").json()
    assert [(one["name"], "token" in one, "hash" in one) for one in listed if one["id"] == found["id"]] == [
        ("ci", False, False)
    ]

    assert ask("DELETE", f"/v1/tokens/{found['id']}", "admin").status_code == 204
    refused = ask("GET", "/v1/secrets", found["token"])
    assert (refused.status_code, refused.json()["error"]["code"]) == (401, "unauthorized")
    assert refused.headers["WWW-Authenticate"] == "Bearer"


EVERY_DOOR = [
    *(("POST", "/v1/tokens", {"role": "admin"}), ("GET", "/v1/tokens", None), ("DELETE", "/v1/tokens/tok-none", None)),
    *(("PUT", "/v1/secrets/A", {"value": VALUE}), ("GET", "/v1/secrets", None), ("DELETE", "/v1/secrets/A", None)),
    *(("GET", "/v1/jobs/job-1/secrets", None), ("POST", "/v1/join", {"key_hash": "0" * 64})),
]


@pytest.mark.parametrize(("method", "path", "body"), EVERY_DOOR)
@pytest.mark.parametrize("token", ["", "glt_" + "x" * 43, "é", "\x01"])
def test_no_door_opens_without_a_token(ask: Ask, method: str, path: str, body: Any, token: str) -> None:
    assert ask(method, path, token, body).status_code == 401


@pytest.mark.parametrize(("method", "path", "body"), EVERY_DOOR)
def test_a_user_opens_the_door_to_names_only(ask: Ask, method: str, path: str, body: Any) -> None:
    assert ask(method, path, "user", body).status_code == (200 if (method, path) == ("GET", "/v1/secrets") else 403)


@pytest.mark.parametrize(("method", "path", "body"), EVERY_DOOR[:-1])
def test_a_join_token_opens_one_door(ask: Ask, method: str, path: str, body: Any) -> None:
    assert ask(method, path, "join", body).status_code == 403


def test_a_machine_joins_and_asks_again(ask: Ask) -> None:
    wanted = {"key_hash": hashlib.sha256(KEY.encode()).hexdigest(), "name": "box"}
    first, again = ask("POST", "/v1/join", "join", wanted), ask("POST", "/v1/join", "join", wanted)

    assert first.json() == again.json()
    assert first.json()["worker_id"].startswith("wkr-")
    assert ask("POST", "/v1/join", "join", {"key_hash": "x"}).status_code == 400


def test_a_secret_goes_to_the_workers_of_its_job_and_to_nobody_else(ask: Ask, store: Store) -> None:
    assert ask("PUT", "/v1/secrets/A", "admin", {"value": VALUE}).status_code == 204
    a_worker_of(ask, store, TaskState.RUNNING)

    assert ask("GET", "/v1/jobs/job-1/secrets", KEY).json() == {"A": VALUE}
    for role in ("admin", "user"):
        assert ask("GET", "/v1/jobs/job-1/secrets", role).status_code == 403
    assert ask("GET", "/v1/secrets", "user").json() == ["A"]


def test_a_worker_whose_task_has_ended_gets_no_secret(ask: Ask, store: Store) -> None:
    ask("PUT", "/v1/secrets/A", "admin", {"value": VALUE})
    a_worker_of(ask, store, TaskState.SUCCEEDED)

    assert ask("GET", "/v1/jobs/job-1/secrets", KEY).status_code == 403


@pytest.mark.parametrize(
    ("body", "status"), [({"value": "short"}, 422), ({"value": VALUE, "more": 1}, 422), ({"value": 12345678}, 400), ({}, 400)]
)
def test_a_refused_value_is_not_told_back(ask: Ask, body: dict[str, Any], status: int) -> None:
    refused = ask("PUT", "/v1/secrets/A", "admin", body)

    assert refused.status_code == status
    assert not [value for value in body.values() if str(value) in refused.text and value != 1]
    assert ask("GET", "/v1/secrets", "admin").json() == []


def test_what_is_not_there(ask: Ask) -> None:
    assert ask("DELETE", "/v1/secrets/A", "admin").json()["error"]["code"] == "secret_not_found"
    assert ask("DELETE", "/v1/tokens/tok-none", "admin").json()["error"]["code"] == "token_not_found"
