"""What caller and ranks must agree on before a call computes; both halves take it with this module."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from gpulayer.spec.calls import Fingerprint, FunctionName

KEYWORDS = ("best", "last", "hpc", "registry")


def take(
    *, call: int, function: FunctionName, ordinal: int, trainer: Any, model: torch.nn.Module | None, ckpt_path: str | None
) -> Fingerprint:
    """Describe call ``call``; ``ckpt_path`` is the one that ``relative`` made."""
    return Fingerprint(
        call=call,
        function=function,
        trainer=ordinal,
        module="" if model is None else f"{type(model).__module__}:{type(model).__qualname__}",
        shapes="" if model is None else shapes(model),
        ckpt_path=ckpt_path,
        max_epochs=trainer.max_epochs if function == "fit" else None,
    )


def shapes(model: torch.nn.Module) -> str:
    """Digest the names and shapes of parameters and buffers; empty when one of them has no shape yet."""
    digest = hashlib.sha256()
    for kind, entries in (("p", model.named_parameters()), ("b", model.named_buffers())):
        for name, tensor in entries:
            if is_lazy(tensor):
                return ""
            digest.update(f"{kind} {name} {tuple(tensor.shape)}\n".encode())
    return digest.hexdigest()[:16]


def relative(ckpt_path: Any, root: str, to_caller: Callable[[str], str]) -> str | None:
    """Write a checkpoint's path as both sides see it: below the caller's root, or absolute, or as it is (URL, keyword).

    ``to_caller`` makes an absolute path of the caller's out of the path as the script passed it.
    """
    if ckpt_path is None or ckpt_path == "":
        return None
    text: str = os.fspath(ckpt_path)
    if is_keyword(text) or "://" in text:
        return text
    path = PurePosixPath(to_caller(text))
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def is_keyword(text: str) -> bool:
    """Say whether Lightning gives the word a meaning of its own (``registry:...`` too)."""
    return text.partition(":")[0] in KEYWORDS and "/" not in text
