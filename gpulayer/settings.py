"""What is read from GPULAYER_* variables and from the profile that they choose, once, at the entry points."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpulayer.errors import BadRequest

VARIABLES = {
    "GPULAYER_HOME": "the folder of the embedded plane; `~/.gpulayer` unless it is said",
    "GPULAYER_URL": "the self-hosted plane to speak to, instead of that of the home",
    "GPULAYER_TOKEN": "the token that opens it",
    "GPULAYER_TOKEN_FILE": "the file that holds this token",
    "GPULAYER_CA_CERT": "who may vouch for it (PEM)",
    "GPULAYER_INSECURE": "`1` lets a token go over plain http to another machine",
    "GPULAYER_LOG_LEVEL": "of a server's own log: `debug`, `info`, `warning` or `error`",
    "GPULAYER_PROFILE": "the profile of the configuration file that says what these variables don't",
}
"""What each variable means; docs/reference/settings.md is made from it."""
PROFILE_KEYS = {"home": str, "url": str, "token_file": str, "ca_cert": str, "insecure": bool, "log_level": str}
"""What a profile may say, each as the variable of that name."""
_OF_A_URL = ("url", "token_file", "ca_cert", "insecure")

_said: dict[str, Any] = {}


@dataclass(frozen=True)
class Settings:
    """The environment's say in things; everything else is an argument.

    ``home`` is absolute. ``url`` names a self-hosted plane; without it the plane is embedded in ``home``. ``token`` and
    ``token_file`` (one of them) open it; ``ca_cert`` holds who may vouch for it; ``insecure`` lets a token go over plain
    http to another machine. ``profile`` is the one that was read, empty for none.
    """

    home: Path
    url: str | None = None
    token: str | None = None
    token_file: Path | None = None
    ca_cert: Path | None = None
    insecure: bool = False
    log_level: str = "warning"
    profile: str = ""


def read(environ: Mapping[str, str] | None = None) -> Settings:
    """Read the settings from ``environ``; when not given, from the process's own and what ``saying`` says.

    Variables go before the profile, which they or the command line choose. Raises ``BadRequest`` for a profile that is not
    there or says what none may, and for a URL without its scheme, which would else be taken for a folder.
    """
    env = os.environ if environ is None else environ
    said = _said if environ is None else {}
    profile, chosen = _profile(env, said.get("profile"))
    if env.get("GPULAYER_URL") or said.get("url"):  # another plane's token is not for this one's ears
        chosen = {key: value for key, value in chosen.items() if key not in _OF_A_URL}
    found = Settings(
        home=_path(env.get("GPULAYER_HOME") or chosen.get("home") or os.path.join(os.path.expanduser("~"), ".gpulayer")),
        url=env.get("GPULAYER_URL") or chosen.get("url"),
        token=env.get("GPULAYER_TOKEN") or None,
        token_file=_path_or_none(env.get("GPULAYER_TOKEN_FILE") or chosen.get("token_file")),
        ca_cert=_path_or_none(env.get("GPULAYER_CA_CERT") or chosen.get("ca_cert")),
        insecure=env["GPULAYER_INSECURE"] not in ("", "0") if "GPULAYER_INSECURE" in env else chosen.get("insecure", False),
        log_level=env.get("GPULAYER_LOG_LEVEL") or chosen.get("log_level", "warning"),
        profile=profile,
    )
    found = replace(found, **{key: value for key, value in said.items() if key != "profile"})
    if found.url is not None and not found.url.lower().startswith(("https://", "http://")):
        name = "--url" if "url" in said else "GPULAYER_URL" if env.get("GPULAYER_URL") else f"The url of profile {profile}"
        raise BadRequest(f"{name} is {found.url!r}; it must begin with https:// (or http:// on this machine).")
    return found


@contextmanager
def saying(
    *, url: str | None = None, token_file: Path | None = None, ca_cert: Path | None = None, profile: str | None = None
) -> Iterator[None]:
    """Let a command line's options go before the environment in this process, which is left as it is."""
    before = dict(_said)
    given = {"url": url, "token_file": _path_or_none(token_file), "ca_cert": _path_or_none(ca_cert), "profile": profile}
    _said.update({name: value for name, value in given.items() if value is not None})
    if token_file is not None:
        _said["token"] = None  # the environment's belongs to another plane, or the file would not have been named
    try:
        yield
    finally:
        _said.clear()
        _said.update(before)


def in_job() -> bool:
    """Say whether this process belongs to a job."""
    return bool(os.environ.get("GPULAYER_JOB_ID"))


def config_file(environ: Mapping[str, str]) -> Path:
    """Return where a person keeps profiles."""
    return _path(environ.get("XDG_CONFIG_HOME") or "~/.config") / "gpulayer" / "config.toml"


def profiles(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return all profiles, unchecked."""
    return _profiles_in(_config(environ))


def _profiles_in(config: Mapping[str, Any]) -> dict[str, Any]:
    found = config.get("profiles", {})
    return found if isinstance(found, dict) else {}


def _profile(environ: Mapping[str, str], said: str | None) -> tuple[str, dict[str, Any]]:
    """Return the name and the words of the profile that is chosen: on the command line, by variable, in the file."""
    config, file = _config(environ), config_file(environ)
    name = said or environ.get("GPULAYER_PROFILE") or config.get("profile", "")
    if not name:
        return "", {}
    known = _profiles_in(config)
    found = known.get(name)
    if not isinstance(found, dict):
        raise BadRequest(f"There is no profile {name!r} in {file}; it has {', '.join(map(str, known)) or 'none'}.")
    for key, value in found.items():
        kind = PROFILE_KEYS.get(key)
        if kind is None:
            raise BadRequest(f"Profile {name} in {file} says {key!r}; a profile may say {', '.join(PROFILE_KEYS)}.")
        if type(value) is not kind:
            raise BadRequest(f"Profile {name} in {file} says {key} = {value!r}, which is no {kind.__name__}.")
    paths = {key: file.parent / os.path.expanduser(found[key]) for key in ("home", "token_file", "ca_cert") if key in found}
    return str(name), {**found, **paths}


def _config(environ: Mapping[str, str]) -> dict[str, Any]:
    file = config_file(environ)
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as cause:
        raise BadRequest(f"{file} can't be read: {cause}.") from cause


def _path_or_none(text: str | Path | None) -> Path | None:
    return _path(text) if text else None


def _path(text: str | Path) -> Path:
    return Path(os.path.abspath(os.path.expanduser(text)))
