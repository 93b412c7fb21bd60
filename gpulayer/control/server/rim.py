"""What holds for every request before a route sees it: limits, the gate at the end, the log, and no error without an answer."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpulayer.control.server import statuses
from gpulayer.control.server.metrics import Metrics
from gpulayer.control.server.rates import Rates
from gpulayer.errors import GPULayerError, MessageTooLarge, PlaneBusy

_access = logging.getLogger("gpulayer.access")

LONGEST_BODY = 16 * 1024 * 1024
LONGEST_LINES = 4 * 1024 * 1024
_DRAINED = 64 * 1024 * 1024
"""A body that is refused is read to its end up to here: a client that still sends would not see the answer."""
_OPEN = ("/healthz", "/readyz", "/metrics")


class Rim:
    """Wraps the application."""

    def __init__(self, app: ASGIApp, metrics: Metrics, rates: Rates, closing: Callable[[], bool]) -> None:
        self._app = app
        self._metrics = metrics
        self._rates = rates
        self._closing = closing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        exchange = _Exchange(scope, receive, send)
        began = time.perf_counter()
        try:
            refusal = self._refusal(exchange)
            if refusal is None:
                await self._answer(exchange)
                refusal = exchange.refusal
            if refusal is not None:
                await exchange.refuse(refusal)
        finally:
            self._note(exchange, time.perf_counter() - began)
        return None

    async def _answer(self, exchange: _Exchange) -> None:
        try:
            await self._app(exchange.scope, exchange.receive, exchange.send)
        except Exception:
            if not (exchange.answered or exchange.refusal):  # only the connection's end can tell that an answer isn't whole
                raise

    def _refusal(self, exchange: _Exchange) -> GPULayerError | None:
        if exchange.path in _OPEN:
            return None
        if self._closing():
            return PlaneBusy("This plane is stopping.")
        wait_s = self._rates.wait_for(exchange.asker)
        if wait_s:
            return PlaneBusy("Too many requests.", retry_after_s=round(wait_s, 3), status=429)
        if exchange.promised > exchange.longest:
            return exchange.too_large()
        return None

    def _note(self, exchange: _Exchange, seconds: float) -> None:
        route = getattr(exchange.scope.get("route"), "path", "other")
        self._metrics.answered(exchange.method, route, exchange.status, seconds)
        principal = exchange.scope.get("state", {}).get("principal")
        facts = {
            "method": exchange.method,
            "path": exchange.path,
            "status": exchange.status,
            "ms": round(seconds * 1000, 1),
            "token_id": principal.token_id if principal is not None else None,
        }
        refused = exchange.status >= 400 and exchange.path not in _OPEN
        _access.log(logging.INFO if refused else logging.DEBUG, "request", extra={"facts": facts})


class _Exchange:
    """One request and its answer, watched on the way."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.status = 0
        self.answered = False
        self.refusal: GPULayerError | None = None
        self._receive = receive
        self._send = send
        self._came = 0
        self._ended = False
        headers = dict(scope["headers"])
        self.promised = int(headers.get(b"content-length", b"0")) if headers.get(b"content-length", b"0").isdigit() else 0
        self.asker = _named(headers.get(b"authorization"), scope)

    @property
    def longest(self) -> int:
        return LONGEST_LINES if self.method == "POST" and self.path.endswith("/lines") else LONGEST_BODY

    def too_large(self) -> MessageTooLarge:
        return MessageTooLarge(
            f"A body has at most {self.longest:,} bytes here.", next_step="Send it in parts.", most=self.longest
        )

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._came += len(message.get("body", b""))
            self._ended = not message.get("more_body", False)
            if self._came > self.longest:
                self.refusal = self.too_large()
                raise self.refusal  # the application may take it for a client that went away
        return message

    async def send(self, message: Message) -> None:
        if self.refusal is not None:
            return
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif message["type"] == "http.response.body":
            self.answered = not message.get("more_body", False)
        await self._send(message)

    async def refuse(self, error: GPULayerError) -> None:
        """Answer in place of the application, once the client has said what it was saying."""
        while not self._ended and self._came < _DRAINED:
            message = await self._receive()
            self._came += len(message.get("body", b""))
            self._ended = message["type"] == "http.disconnect" or not message.get("more_body", False)
        self.refusal = None
        await statuses.answer(error)(self.scope, self._receive, self.send)


def _named(authorization: bytes | None, scope: Scope) -> str:
    """Name who asks, by a token that may be no token at all, or by address."""
    if authorization is not None:
        return hashlib.blake2b(authorization, digest_size=16).hexdigest()
    client = scope.get("client")
    return client[0] if client else ""
