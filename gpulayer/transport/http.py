"""HTTP to a self-hosted plane: one client with a token, errors of our own tree, and one way of asking again."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import httpx
from pydantic_core import to_json

from gpulayer.errors import PlaneBusy, PlaneFromChild, PlaneUnreachable
from gpulayer.transport import answers, tls
from gpulayer.transport.address import Address, is_loopback

T = TypeVar("T")

CONNECT_S = 5.0
SLACK_S = 30.0
"""How long an answer may take beyond the time that the question lets it wait."""
FIRST_PATIENCE_S = 3.0
PATIENCE_S = 20.0
"""How long a plane that answered before is asked again: a restart is not seen by its callers."""
_KNOCK_S = 2.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0


class _NotOurs(logging.Filter):
    """Drops httpx's line about each request to a plane: a program that logs at INFO means its own requests."""

    def filter(self, record: logging.LogRecord) -> bool:
        asked = record.args[1] if isinstance(record.args, tuple) and len(record.args) > 1 else None
        return not (isinstance(asked, httpx.URL) and asked.netloc in _NETLOCS)


_NETLOCS: set[bytes] = set()
_NOT_OURS = _NotOurs()


class Broken(Exception):
    """A streamed answer ended before it was whole."""


class Http:
    """Asks one plane. Any thread may; a forked child may not.

    Every question may be repeated: it is asked again while the plane can't be reached or is busy, for ``FIRST_PATIENCE_S``
    when it never answered, else for ``patience_s``. Then ``PlaneUnreachable`` or ``PlaneBusy`` comes out.
    """

    def __init__(self, address: Address, *, patience_s: float = PATIENCE_S) -> None:
        self.url = address.checked()
        self._pid = os.getpid()
        self._patience_s = patience_s
        self._heard = False
        self._silent_since: float | None = None
        self._closed = threading.Event()
        near = is_loopback(self.url.host)
        _NETLOCS.add(self.url.netloc)
        logging.getLogger("httpx").addFilter(_NOT_OURS)  # adding it again changes nothing
        self._client = httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {address.bearer}"} if address.bearer else {},
            verify=tls.trust(address.ca_cert, address.fingerprint) if self.url.scheme == "https" else False,
            timeout=httpx.Timeout(SLACK_S, connect=CONNECT_S, pool=None),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=16, keepalive_expiry=30.0),
            # A proxy is for the way to other machines, and one that ends the TLS would hide a pinned certificate.
            trust_env=not near and (address.fingerprint is None or address.ca_cert is not None),
            follow_redirects=False,
        )

    def ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        json: Any = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        wait_s: float = 0.0,
        accept: tuple[int, ...] = (),
        insist: bool = True,
    ) -> httpx.Response:
        """Ask until there is an answer; one that is an error is raised, but for the statuses in ``accept``.

        ``json`` may hold our values; ``params`` that are None are left out; ``wait_s`` is how long the plane may wait itself.
        Without ``insist`` trouble comes out at once: whoever asks would ask something else next.
        """
        request = self._request(method, path, params, json, content, headers, wait_s)

        def once() -> httpx.Response:
            answer = self._send(request)
            self._raise_for(answer, accept)
            return answer

        return self.again(once) if insist else once()

    @contextmanager
    def stream(
        self, path: str, *, params: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> Iterator[tuple[httpx.Response, Iterator[bytes]]]:
        """Give an answer's headers and its body as it comes; reading raises ``Broken`` when the connection ends before it."""
        request = self._request("GET", path, params, None, None, {"Accept-Encoding": "identity", **(headers or {})}, 0.0)

        def once() -> httpx.Response:
            answer = self._send(request, stream=True)
            if not answer.is_success:
                answer.read()
                answer.close()
                self._raise_for(answer, ())
            return answer

        answer = self.again(once)
        try:
            yield answer, _body(answer)
        finally:
            answer.close()

    def again(self, ask: Callable[[], T]) -> T:
        """Ask until it works, as long as the trouble is one that passes."""
        started, pause = time.monotonic(), _FIRST_PAUSE_S
        while True:
            try:
                self._knock()
                answer = ask()
                self._silent_since = None
                return answer
            except (PlaneUnreachable, PlaneBusy) as trouble:
                if isinstance(trouble, PlaneBusy):
                    self._silent_since = None
                elif self._silent_since is None:
                    self._silent_since = time.monotonic()
                patience = self._patience_s if self._heard else min(FIRST_PATIENCE_S, self._patience_s)
                wait = max(pause, float(trouble.facts.get("retry_after_s") or 0.0))
                late = time.monotonic() + wait - started > patience
                if late or trouble.facts.get("final") or self._closed.wait(wait):
                    raise
                pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _knock(self) -> None:
        """Ask a plane that was away for a while whether it is back: a question for news may wait for long before it tells."""
        if self.silent_s > _KNOCK_S:
            answer = self._send(self._request("GET", "/healthz", None, None, None, None, 0.0))
            if answer.is_success:
                self._silent_since = None

    @property
    def silent_s(self) -> float:
        """How long the plane has not answered any question; 0.0 while it does."""
        since = self._silent_since
        return 0.0 if since is None else time.monotonic() - since

    def close(self) -> None:
        """End all connections; who is asking again stops."""
        self._closed.set()
        if os.getpid() == self._pid:
            self._client.close()

    def own_process(self) -> None:
        """Refuse a forked child of the process that made this: both would read each other's answers."""
        if os.getpid() != self._pid:
            raise PlaneFromChild(
                f"The plane at {self.url} was opened by process {self._pid}, the parent of this one ({os.getpid()}).",
                url=str(self.url),
            )

    def _request(
        self,
        method: str,
        path: str,
        params: Mapping[str, Any] | None,
        json: Any,
        content: bytes | None,
        headers: Mapping[str, str] | None,
        wait_s: float,
    ) -> httpx.Request:
        self.own_process()
        said = dict(headers or {})
        if json is not None:
            content, said = to_json(json), {"Content-Type": "application/json", **said}
        return self._client.build_request(
            method,
            path,
            params={name: value for name, value in (params or {}).items() if value is not None},
            content=content,
            headers=said,
            timeout=httpx.Timeout(wait_s + SLACK_S, connect=CONNECT_S, pool=None),
        )

    def _send(self, request: httpx.Request, *, stream: bool = False) -> httpx.Response:
        self.own_process()
        if self._closed.is_set():
            raise answers.unreachable(self.url, "it was closed here", final=True)
        try:
            answer = self._client.send(request, stream=stream)
        except httpx.RequestError as cause:
            raise answers.unanswered(cause, self.url, with_token="Authorization" in self._client.headers) from cause
        except RuntimeError as cause:  # httpx's word for a client that another thread closed meanwhile
            raise answers.unreachable(self.url, str(cause), final=True) from cause
        self._heard = True
        return answer

    def _raise_for(self, answer: httpx.Response, accept: tuple[int, ...]) -> None:
        if not answer.is_success and answer.status_code not in accept:
            raise answers.error_of(answer, self.url)


def _body(answer: httpx.Response) -> Iterator[bytes]:
    try:
        yield from answer.iter_raw()
    except httpx.RequestError as cause:
        raise Broken(answers.in_words(cause)) from cause
