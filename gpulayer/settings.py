"""What is read from GPULAYER_* variables, once, at the entry points."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Settings:
    """The environment's say in things; everything else is an argument.

    ``home`` is absolute. ``url`` and ``token`` name a self-hosted plane; without a url the plane is embedded in ``home``.
    """

    home: Path
    url: str | None = None
    token: str | None = None
    log_level: str = "warning"


def read(environ: Mapping[str, str] | None = None) -> Settings:
    """Read the settings from ``environ`` (the process's own, when not given)."""
    env = os.environ if environ is None else environ
    home = env.get("GPULAYER_HOME") or os.path.join(os.path.expanduser("~"), ".gpulayer")
    return Settings(
        home=Path(os.path.abspath(os.path.expanduser(home))),
        url=env.get("GPULAYER_URL") or None,
        token=env.get("GPULAYER_TOKEN") or None,
        log_level=env.get("GPULAYER_LOG_LEVEL", "warning"),
    )
