"""Calls that can't become part of the script's job are refused where they are made."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import pytest

from gpulayer.errors import CallFromChild, CallFromThread, CallRefused
from gpulayer.strategies import session
from gpulayer.strategies.session import Session


class Answering(Session):
    """A session whose calls run a function instead of a job."""

    def __init__(self, inside: Callable[[], Any]) -> None:
        super().__init__()
        self.inside = inside

    def _answer(self, *_: Any) -> Any:
        return self.inside(), session.EarlierCall(call=len(self._earlier), status="ok")


def test_a_call_in_a_forked_child_is_refused() -> None:
    here = Answering(lambda: 1)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            here.call(None)  # type: ignore[arg-type]
        except CallFromChild:
            os.write(write, b"refused")
        os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    assert os.read(read, 100) == b"refused"
    os.close(read)


def test_a_call_from_another_thread_during_a_call_is_refused() -> None:
    seen: list[BaseException] = []

    def from_thread() -> None:
        try:
            here.call(None)  # type: ignore[arg-type]
        except CallRefused as error:
            seen.append(error)

    def inside() -> None:
        thread = threading.Thread(target=from_thread)
        thread.start()
        thread.join()

    here = Answering(inside)
    here.call(None)  # type: ignore[arg-type]
    assert [type(error) for error in seen] == [CallFromThread]


def test_calls_are_counted_even_when_they_fail() -> None:
    def fail() -> None:
        raise ValueError("no")

    here = Answering(fail)
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            here.call(None)  # type: ignore[arg-type]
    assert [(call.call, call.status, call.error.qualname) for call in here._earlier if call.error] == [
        (0, "failed", "ValueError"),
        (1, "failed", "ValueError"),
    ]
