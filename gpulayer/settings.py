"""What is read from GPULAYER_* variables, once, at the entry points."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpulayer.errors import BadRequest

_said: dict[str, Any] = {}


@dataclass(frozen=True)
class Settings:
    """The environment's say in things; everything else is an argument.

    ``home`` is absolute. ``url`` names a self-hosted plane; without it the plane is embedded in ``home``. ``token`` and
    ``token_file`` (one of them) open it; ``ca_cert`` holds who may vouch for it; ``insecure`` lets a token go over plain
    http to another machine.
    """

    home: Path
    url: str | None = None
    token: str | None = None
    token_file: Path | None = None
    ca_cert: Path | None = None
    insecure: bool = False
    log_level: str = "warning"


def read(environ: Mapping[str, str] | None = None) -> Settings:
    """Read the settings from ``environ``; when not given, from the process's own and what ``saying`` says.

    Raises ``BadRequest`` for a URL without its scheme, which would else be taken for a folder.
    """
    env = os.environ if environ is None else environ
    home = env.get("GPULAYER_HOME") or os.path.join(os.path.expanduser("~"), ".gpulayer")
    found = Settings(
        home=_path(home),
        url=env.get("GPULAYER_URL") or None,
        token=env.get("GPULAYER_TOKEN") or None,
        token_file=_path(env["GPULAYER_TOKEN_FILE"]) if env.get("GPULAYER_TOKEN_FILE") else None,
        ca_cert=_path(env["GPULAYER_CA_CERT"]) if env.get("GPULAYER_CA_CERT") else None,
        insecure=env.get("GPULAYER_INSECURE", "") not in ("", "0"),
        log_level=env.get("GPULAYER_LOG_LEVEL", "warning"),
    )
    if environ is None:
        found = replace(found, **_said)
    if found.url is not None and not found.url.lower().startswith(("https://", "http://")):
        name = "--url" if environ is None and "url" in _said else "GPULAYER_URL"
        raise BadRequest(f"{name} is {found.url!r}; it must begin with https:// (or http:// on this machine).")
    return found


@contextmanager
def saying(*, url: str | None = None, token_file: Path | None = None, ca_cert: Path | None = None) -> Iterator[None]:
    """Let a command line's options go before the environment in this process, which is left as it is."""
    before = dict(_said)
    given = {"url": url, "token_file": token_file and _path(token_file), "ca_cert": ca_cert and _path(ca_cert)}
    _said.update({name: value for name, value in given.items() if value is not None})
    if token_file is not None:
        _said["token"] = None  # the environment's belongs to another plane, or the file would not have been named
    try:
        yield
    finally:
        _said.clear()
        _said.update(before)


def _path(text: str | Path) -> Path:
    return Path(os.path.abspath(os.path.expanduser(text)))
