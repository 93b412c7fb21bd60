"""Tells whether ranks drew the same batch, by digests of what is in it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy
import torch

from gpulayer.strategies import digest

_ATOMS = (str, bytes, int, float, complex, bool, type(None))


def digest_of(batch: Any) -> str | None:
    """Digest a batch of tensors, arrays and plain values, however nested; None when it holds anything else."""
    words: list[str] = []
    if not _write(batch, words):
        return None
    return hashlib.sha256("\n".join(words).encode()).hexdigest()


def _write(value: Any, words: list[str]) -> bool:
    if isinstance(value, torch.Tensor):
        words.append(digest.of_tensor(value))
    elif isinstance(value, numpy.ndarray) and not value.dtype.hasobject:
        words.append(f"{value.dtype}{value.shape}{hashlib.sha256(numpy.ascontiguousarray(value).tobytes()).hexdigest()}")
    elif isinstance(value, _ATOMS):
        words.append(f"{type(value).__name__}:{value!r}")
    elif isinstance(value, Mapping):
        words.append(f"{{{len(value)}")
        return all(_write(part, words) for pair in value.items() for part in pair)
    elif isinstance(value, list | tuple):
        words.append(f"[{len(value)}")
        return all(_write(item, words) for item in value)
    else:
        return False
    return True
