"""Tokens and secrets on every database, also when many ask at once."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from gpulayer.control.server import auth
from gpulayer.control.server.sealing import Sealer
from gpulayer.control.server.vault import Vault
from gpulayer.control.store import jobs
from gpulayer.control.store.store import Store, open_database
from gpulayer.errors import SecretNotFound, TokenNotFound, Unauthorized
from gpulayer.spec.tokens import TokenRequest
from tests.control.given import a_command, a_record

NOW = 1_000_000.0


def hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def at_once(count: int, do: Callable[[int], object]) -> list[object]:
    """Do something in as many threads, all starting together; an error counts as its result."""
    start, found = threading.Barrier(count), list[object]()

    def run(number: int) -> None:
        start.wait(10)
        try:
            found.append(do(number))
        except Unauthorized as refused:
            found.append(refused)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(found) == count
    return found


def test_a_token_is_made_found_listed_and_revoked(store: Store) -> None:
    made = auth.create(store, TokenRequest(role="user", ttl_s=60, name="ci"), NOW)

    assert auth.authenticate(store, made.token, NOW).token_id == made.id
    assert [(one.id, one.name, one.expires_at, one.last_used_at) for one in auth.listed(store)] == [
        (made.id, "ci", NOW + 60, NOW)
    ]
    with pytest.raises(TokenNotFound):
        auth.revoke(store, "tok-none", NOW)
    auth.revoke(store, made.id, NOW)
    with pytest.raises(Unauthorized):
        auth.authenticate(store, made.token, NOW)


def test_of_many_machines_one_redeems_a_single_use_token(store: Store) -> None:
    join = auth.create(store, TokenRequest(role="join", single_use=True), NOW)

    found = at_once(8, lambda number: auth.redeem(store, join.token, hashed(f"key {number}"), "", NOW))

    (worker_id,) = [one for one in found if isinstance(one, str)]
    assert [one.subject for one in auth.listed(store) if one.role == "worker"] == [worker_id]


def test_a_machine_that_asks_many_times_at_once_is_one_worker(store: Store) -> None:
    join = auth.create(store, TokenRequest(role="join"), NOW)

    found = at_once(8, lambda _: auth.redeem(store, join.token, hashed("key"), "", NOW))

    assert len(set(found)) == 1
    assert len([one for one in auth.listed(store) if one.role == "worker"]) == 1


def test_a_revocation_is_heard_by_another_server_when_its_memory_ends(
    store: Store, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpulayer.control.server.known_tokens.CACHE_S", 0.0)
    made = auth.create(store, TokenRequest(role="user"), NOW)
    other = open_database(database, tmp_path)
    try:
        auth.authenticate(other, made.token, NOW)
        auth.revoke(store, made.id, NOW)
        with pytest.raises(Unauthorized):
            auth.authenticate(other, made.token, NOW)
    finally:
        other.close()


def test_secrets_are_set_changed_given_and_removed(store: Store, tmp_path: Path) -> None:
    vault = Vault(store, Sealer(tmp_path / "secrets.key"))
    vault.set("B", "first-value")
    vault.set("A", "another-value")
    vault.set("B", "second-value")
    with store.write() as db:
        jobs.add(db, a_record(id="job-1", spec=a_command(secrets=("B",))), ())

    assert vault.names() == ["A", "B"]
    assert vault.of_job("job-1") == {"B": "second-value"}
    vault.remove("B")
    with pytest.raises(SecretNotFound):
        vault.of_job("job-1")
    with pytest.raises(SecretNotFound):
        vault.remove("B")


def test_a_secret_that_many_set_at_once_is_one_of_theirs(store: Store, tmp_path: Path) -> None:
    vault = Vault(store, Sealer(tmp_path / "secrets.key"))
    with store.write() as db:
        jobs.add(db, a_record(id="job-1", spec=a_command(secrets=("A",))), ())

    at_once(6, lambda number: vault.set("A", f"value number {number}"))

    assert vault.of_job("job-1")["A"] in {f"value number {number}" for number in range(6)}
