"""What came of a question to a plane, as errors of our tree: an answer with an error, or no answer."""

from __future__ import annotations

import ssl

import httpx

from gpulayer.errors import Forbidden, GPULayerError, PlaneBusy, PlaneError, PlaneUnreachable, Unauthorized, from_wire

_TRUST = (
    "Give the token whole, as it was printed: it ends in the fingerprint of a certificate that a plane made itself."
    " Or name who vouches for it with GPULAYER_CA_CERT."
)
_NO_TOKEN = "No token is set: set GPULAYER_TOKEN to the one that an admin gave you, whole, or name its file with --token-file."
_BUSY = (429, 503)
_BROKEN_ON_THE_WAY = (502, 504)


def error_of(answer: httpx.Response, url: httpx.URL) -> GPULayerError:
    """Return the error that an answer of the plane at ``url`` is; of a busy one, with when to ask again."""
    error = _told(answer) or _by_status(answer, url)
    if answer.status_code in _BUSY:
        error.facts.setdefault("retry_after_s", _seconds(answer.headers.get("Retry-After")))
    return error


def _told(answer: httpx.Response) -> GPULayerError | None:
    """Return the error that the plane tells of; None where the answer is a proxy's, or has no body."""
    try:
        told = answer.json()["error"]
        return from_wire(told) if isinstance(told, dict) else None
    except (ValueError, LookupError, TypeError):
        return None


def _by_status(answer: httpx.Response, url: httpx.URL) -> GPULayerError:
    status = answer.status_code
    if answer.is_redirect:
        target = answer.headers.get("Location", "elsewhere")
        return PlaneError(f"{url} answers with a redirect to {target}.", next_step="Name the plane's own address.")
    sentence = f"{url} answered {answer.request.method} {answer.request.url.path} with {status}."
    if status in _BROKEN_ON_THE_WAY:
        return PlaneUnreachable(sentence)
    if status in _BUSY:
        return PlaneBusy(sentence)
    return {401: Unauthorized, 403: Forbidden}.get(status, PlaneError)(sentence)


def unanswered(cause: httpx.RequestError, url: httpx.URL, *, with_token: bool = True) -> PlaneUnreachable:
    """Return the error that a question without an answer is; ``final`` where a certificate is not trusted.

    Without a token that is what to see to first: most planes' tokens say which certificate to trust.
    """
    if _is_distrust(cause):
        return unreachable(url, in_words(cause), next_step=_TRUST if with_token else _NO_TOKEN, final=True)
    return unreachable(url, in_words(cause))


def unreachable(url: httpx.URL, why: str, *, next_step: str | None = None, final: bool = False) -> PlaneUnreachable:
    """Say that the plane at ``url`` can't be reached; ``final`` when asking again would change nothing."""
    return PlaneUnreachable(f"The plane at {url} can't be reached: {why}.", next_step=next_step, url=str(url), final=final)


def in_words(cause: httpx.RequestError) -> str:
    """Say what went wrong; of an ``SSLError`` with one argument Python itself would print a tuple."""
    distrust = _distrust(cause)
    if distrust is not None and len(distrust.args) == 1:
        return str(distrust.args[0]).rstrip(".")
    return (str(cause) or type(cause).__name__).rstrip(".")


def _is_distrust(cause: BaseException) -> bool:
    """Say whether a certificate was refused, which no further try changes."""
    return _distrust(cause) is not None


def _distrust(cause: BaseException | None) -> ssl.SSLCertVerificationError | None:
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return cause
        cause = cause.__cause__ or cause.__context__
    return None


def _seconds(text: str | None) -> float:
    try:
        return max(0.0, float(text or 0.0))
    except ValueError:
        return 0.0
