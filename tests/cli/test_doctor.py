"""``gpulayer doctor`` and ``resources detect`` against a real server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli
from tests.server.running import Server

Told = Callable[..., Any]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    found = Server(tmp_path_factory.mktemp("server"), "--host", "0.0.0.0").start()
    yield found
    found.close()


@pytest.fixture
def aimed(server: Server, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Have the settings name the server, with a token of a role that names its certificate."""

    def aim(role: str) -> None:
        monkeypatch.setenv("GPULAYER_URL", f"https://127.0.0.1:{server.port}")
        monkeypatch.setenv("GPULAYER_TOKEN", f"{server.token(role)}.{server.told['fingerprint']}")

    return aim


def answers(told: Told, exits: int = 0) -> dict[str, tuple[bool, str]]:
    return {each["check"]: (each["ok"], each["detail"]) for each in told("doctor", exits=exits)}


def test_doctor_says_how_the_plane_answers_and_what_the_token_is_good_for(aimed: Callable[[str], None], told: Told) -> None:
    aimed("user")
    found = answers(told)
    assert all(ok for ok, _ in found.values()), found
    assert "answered in" in found["plane"][1]
    assert found["certificate"][1] == "the one that the token names"
    assert "role is user" in found["token"][1]
    assert "ms apart" in found["clock"][1]
    assert "home" not in found


def test_a_join_token_is_told_as_what_it_is(aimed: Callable[[str], None], told: Told) -> None:
    aimed("join")
    assert "gpulayer worker start" in answers(told)["token"][1]


def test_a_token_of_another_plane_and_a_certificate_that_is_another_are_what_is_wrong(
    aimed: Callable[[str], None], told: Told, monkeypatch: pytest.MonkeyPatch, server: Server
) -> None:
    aimed("user")
    monkeypatch.setenv("GPULAYER_TOKEN", f"glt_{'x' * 43}.{server.told['fingerprint']}")
    found = answers(told, exits=1)
    assert [check for check, (ok, _) in found.items() if not ok] == ["token"]
    assert found["token"][1].startswith("This is no token of this plane.")
    monkeypatch.setenv("GPULAYER_TOKEN", f"{server.token('user')}.{'0' * 64}")
    ok, detail = answers(told, exits=1)["certificate"]
    assert (ok, server.told["fingerprint"] in detail) == (False, True)


def test_nobody_there_is_said_in_seconds(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPULAYER_URL", "http://127.0.0.1:9")
    ok, detail = answers(told, exits=1)["plane"]
    assert (ok, "can't be reached" in detail) == (False, True)


@pytest.mark.parametrize("verb", [("doctor",), ("jobs", "ls"), ("run", "true")])
def test_a_url_without_a_scheme_is_no_folder(
    verb: tuple[str, ...], cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "--url is 'plane.lab:8470'; it must begin with https://" in cli("--url", "plane.lab:8470", *verb, exits=2).stderr
    monkeypatch.setenv("GPULAYER_URL", "192.0.2.2:8470")
    assert "GPULAYER_URL is '192.0.2.2:8470'" in cli(*verb, exits=2).stderr
    assert not list(tmp_path.glob("*8470*"))


def test_doctor_in_a_home_names_what_is_wrong(home: Path, cli: Cli) -> None:
    home.write_text("in the way")
    assert "FAIL  home" in cli("doctor", exits=1).stdout


def test_detect_advertises_loopback_to_a_plane_on_loopback_alone(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    assert told("resources", "detect")["advertise_address"] == "127.0.0.1"
    monkeypatch.setenv("GPULAYER_URL", "http://127.0.0.1:9")
    assert told("resources", "detect")["interface"].startswith("lo")
