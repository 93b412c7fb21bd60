"""The file that an outcome travels in: written by ``torch.save``, read without ever unpickling an object."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any, cast

import torch


def save(body: dict[str, Any], path: Path | IO[bytes]) -> None:
    torch.save(body, path)


def load(path: Path | IO[bytes]) -> dict[str, Any]:
    return cast(dict[str, Any], torch.load(path, map_location="cpu", weights_only=True))
