"""The guard's end of the line to its worker: one JSON object a line, each way (standard library only)."""

from __future__ import annotations

import json
import selectors
import socket
from collections.abc import Callable
from typing import Any


class Line:
    """Hands every word of the worker to ``on_word``; ``on_end`` is called once, when the worker is gone."""

    def __init__(
        self,
        control: socket.socket,
        selector: selectors.BaseSelector,
        on_word: Callable[[dict[str, Any]], None],
        on_end: Callable[[], None],
    ) -> None:
        self._socket: socket.socket | None = control
        self._selector = selector
        self._on_word = on_word
        self._on_end = on_end
        self._rest = b""
        selector.register(control, selectors.EVENT_READ, self._hear)

    @property
    def ended(self) -> bool:
        return self._socket is None

    def say(self, kind: str, **facts: Any) -> None:
        """Tell the worker, if there is one."""
        if self._socket is None:
            return
        try:
            self._socket.sendall(json.dumps({"kind": kind, **facts}).encode() + b"\n")
        except OSError:
            self._end()

    def _hear(self) -> None:
        assert self._socket is not None
        try:
            data = self._socket.recv(65536)
        except ConnectionError:
            data = b""
        if not data:
            self._end()
            return
        *words, self._rest = (self._rest + data).split(b"\n")
        for word in words:
            self._on_word(json.loads(word))

    def _end(self) -> None:
        if self._socket is not None:
            self._selector.unregister(self._socket)
            self._socket.close()
            self._socket = None
        self._on_end()
