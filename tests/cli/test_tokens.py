"""Tokens from the command line: on the server's own machine, and at a URL."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpulayer.cli.server import without_password
from gpulayer.control.server import auth, tls
from gpulayer.control.server.token_desk import on_this_machine
from gpulayer.control.store.store import open_store
from gpulayer.errors import Unauthorized
from gpulayer.plane.remote import RemotePlane
from tests.cli.conftest import Cli

Told = Callable[..., Any]


def role_of(data: Path, token: str) -> str:
    store = open_store(data)
    try:
        return auth.authenticate(store, token, time.time()).role
    finally:
        store.close()


def test_the_first_token_is_alone_on_stdout_and_opens_the_plane(cli: Cli, tmp_path: Path) -> None:
    done = cli("tokens", "create", "--role", "admin", "--data", str(tmp_path / "server"))

    token = done.stdout.removesuffix("\n")
    assert "\n" not in token
    assert role_of(tmp_path / "server", token) == "admin"
    assert token not in done.stderr
    assert "shown only now" in done.stderr


def test_json_gives_it_once(told: Told, tmp_path: Path) -> None:
    where = ("--data", str(tmp_path))
    made = told("tokens", "create", "--role", "join", "--single-use", "--ttl", "1h", "--name", "boxes", *where)

    assert role_of(tmp_path, made["token"]) == "join"
    assert 3590 < made["expires_at"] - made["created_at"] <= 3600
    (listed,) = told("tokens", "ls", *where)
    assert (listed["id"], listed["name"], listed["state"], listed["single_use"]) == (made["id"], "boxes", "live", True)
    assert made["token"] not in str(listed)


def test_a_database_has_a_url(told: Told, home: Path, tmp_path: Path) -> None:
    made = told("tokens", "create", "--role", "user", "--database", f"sqlite:///{tmp_path}/plane.db")

    assert role_of(tmp_path, made["token"]) == "user"


def test_without_a_place_it_is_the_server_of_this_home(told: Told, home: Path) -> None:
    made = told("tokens", "create", "--role", "user")

    assert role_of(home / "server", made["token"]) == "user"


def test_a_token_of_a_server_with_a_certificate_of_its_own_names_it(told: Told, tmp_path: Path) -> None:
    shown = tls.ensure(tmp_path / "tls", [])
    open_store(tmp_path).close()

    made = told("tokens", "create", "--role", "join", "--data", str(tmp_path))

    assert made["token"].partition(".")[2] == shown.fingerprint


def test_a_revoked_token_opens_nothing(cli: Cli, told: Told, tmp_path: Path) -> None:
    where = ("--data", str(tmp_path))
    made = told("tokens", "create", "--role", "user", *where)

    assert cli("tokens", "revoke", made["id"], *where).stdout == f"{made['id']}\n"

    with pytest.raises(Unauthorized):
        role_of(tmp_path, made["token"])
    assert "revoked" in cli("tokens", "ls", *where).stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("create", "--role", "root"), "admin"),
        (("create", "--role", "user", "--ttl", "soon"), "1h"),
        (("create", "--role", "user", "--single-use"), "single-use"),
        (("create", "--role", "task"), "job"),
        (("revoke", "tok-none"), "tokens ls"),
    ],
)
def test_wrong_use_is_told_what_is_right(cli: Cli, tmp_path: Path, arguments: tuple[str, ...], says: str) -> None:
    assert says in cli("tokens", *arguments, "--data", str(tmp_path), exits=2).output


def test_with_a_url_the_plane_there_is_asked(
    cli: Cli, told: Told, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPULAYER_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("GPULAYER_TOKEN", "glt_x")
    with on_this_machine(tmp_path, None) as there:
        monkeypatch.setattr(RemotePlane, "create_token", lambda _, request: there.create_token(request))
        monkeypatch.setattr(RemotePlane, "tokens", lambda _: there.tokens())
        monkeypatch.setattr(RemotePlane, "revoke_token", lambda _, token_id: there.revoke_token(token_id))

        made = told("tokens", "create", "--role", "user")
        cli("tokens", "revoke", made["id"])

        assert [one["state"] for one in told("tokens", "ls")] == ["revoked"]
    assert not (home / "server").exists()


def test_a_folder_whose_database_is_elsewhere_gets_no_second_one(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "plane" / "tls").mkdir(parents=True)
    (tmp_path / "plane" / "tls" / "cert.pem").touch()
    said = cli("tokens", "create", "--role", "user", "--data", str(tmp_path / "plane"), exits=2).stderr
    assert "keeps its database elsewhere" in said
    assert "--database URL beside --data" in said
    assert not (tmp_path / "plane" / "plane.db").exists()


def test_a_tokens_file_without_a_plane_is_refused(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "admin.token").write_text("glt_x")
    said = cli("--token-file", str(tmp_path / "admin.token"), "secrets", "ls", exits=2).stderr
    assert "none is named: give --url, or set GPULAYER_URL" in said


def test_a_databases_password_is_not_shown() -> None:
    assert without_password("postgresql://me:p@ss@host/plane") == "postgresql://me:***@host/plane"
    assert without_password("sqlite:////tmp/a:b/plane.db") == "sqlite:////tmp/a:b/plane.db"
