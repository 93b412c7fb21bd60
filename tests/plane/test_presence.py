"""A caller is heard from its first job on, sooner where a job gives it up sooner, and says when it leaves."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from gpulayer.errors import PlaneUnreachable
from gpulayer.plane.presence import Presence
from gpulayer.transport.address import Address
from gpulayer.transport.http import Http
from tests.control.given import until
from tests.transport.test_http import Handler, Server, hangs_up


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    made.answers = [lambda handler: handler.answer(204)]
    yield made
    made.end()


@pytest.fixture
def presence(server: Server) -> Iterator[Presence]:
    http = Http(Address(server.url))
    made = Presence(http, "prc-1", "caller")
    yield made
    made.leave()
    http.close()


def test_who_submitted_nothing_says_nothing(server: Server, presence: Presence) -> None:
    presence.leave()
    assert server.heard == []


def test_a_caller_is_known_before_its_first_job(server: Server, presence: Presence) -> None:
    presence.begin()
    ((path, _, body),) = server.heard
    assert path == "/v1/callers/prc-1"
    assert b'"kind":"caller"' in body


def test_a_shorter_lease_is_renewed_more_often(server: Server, presence: Presence) -> None:
    presence.begin()
    presence.begin(600)
    presence.begin(0.3)
    until(lambda: len(server.heard) >= 5)


def test_trouble_ends_no_presence(server: Server, presence: Presence) -> None:
    presence.begin(0.3)
    server.answers = [lambda handler: handler.answer(404), lambda handler: handler.answer(204)]
    until(lambda: len(server.heard) >= 5)


def test_leaving_is_said_last(server: Server, presence: Presence) -> None:
    methods: list[str] = []

    def note(handler: Handler) -> None:
        methods.append(handler.command)
        handler.answer(204)

    server.answers = [note]
    presence.begin(0.3)
    until(lambda: len(methods) >= 2)
    presence.leave()
    assert (methods[0], methods.count("DELETE")) == ("PUT", 1)


def test_a_plane_that_does_not_answer_is_left_without_a_word(presence: Presence, server: Server) -> None:
    presence.begin()
    server.answers = [hangs_up]
    asking = threading.Thread(target=_in_vain, args=(presence._http,))
    asking.start()
    until(lambda: presence._http.silent_s > 0)
    asked_at = time.monotonic()
    presence.leave()
    assert time.monotonic() - asked_at < 1.0
    presence._http.close()
    asking.join(10)


def _in_vain(http: Http) -> None:
    with suppress(PlaneUnreachable):
        http.ask("GET", "/v1/jobs")
