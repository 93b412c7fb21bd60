"""Digests of tensors and modules: equal exactly when every byte, shape and dtype is."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch.nn.parameter import is_lazy

_CHUNK = 1 << 20
_WORD = 8
_SMALL = 1 << 15


@functools.cache
def _weights(device: str) -> torch.Tensor:
    """Fixed odd numbers: multiplied by them modulo 2**64, no change of a single word can go unseen."""
    state = torch.arange(1, _CHUNK + 1, dtype=torch.int64)
    for shift in (30, 27, 31):
        state = (state ^ (state >> shift)) * 0x369DEA0F31A53F85
    return (state | 1).to(device)


def of_tensor(tensor: torch.Tensor) -> str:
    """Digest one tensor where it lies; a tensor without values (meta, lazy) is known by its shape alone."""
    tensor = tensor.detach()
    head = f"{tensor.dtype}{'?' if _without_values(tensor) else tuple(tensor.shape)}{tensor.layout}"
    found = hashlib.blake2b(head.encode(), digest_size=16)
    if not _without_values(tensor):
        for part in _dense_parts(tensor):
            _feed(found, part)
    return found.hexdigest()


def _without_values(tensor: torch.Tensor) -> bool:
    return is_lazy(tensor) or tensor.device.type == "meta"


def _dense_parts(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    if tensor.layout is torch.strided:
        yield tensor.dequantize() if tensor.is_quantized else tensor
    elif tensor.layout is torch.sparse_coo:
        whole = tensor.coalesce()
        yield from (whole.indices(), whole.values())
    else:
        yield tensor.to_dense()


def _feed(found: Any, tensor: torch.Tensor) -> None:
    raw = tensor.resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)
    if raw.numel() <= _SMALL:
        # A copy: a tensor that numpy has once seen can't be resized any more.
        found.update(raw.to("cpu", copy=True).numpy())
        return
    whole = raw.numel() // _WORD * _WORD
    if raw.storage_offset() % _WORD:
        raw = raw.clone()
    words = raw[:whole].view(torch.int64)
    weights = _weights(str(raw.device))
    for start in range(0, words.numel(), _CHUNK):
        part = words[start : start + _CHUNK]
        found.update(int((part * weights[: part.numel()]).sum().item()).to_bytes(_WORD, "little", signed=True))
    if whole < raw.numel():
        found.update(bytes(raw[whole:].cpu().tolist()))


def named_tensors(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return parameters and all buffers by name, non-persistent ones and tied ones included."""
    found: dict[str, torch.Tensor] = {}
    found.update(module.named_parameters(remove_duplicate=False))
    found.update(module.named_buffers(remove_duplicate=False))
    return found


def of_state(module: torch.nn.Module) -> str:
    """Digest a module's tensors: what the caller and rank 0 must agree on before a call."""
    return of_named((name, of_tensor(tensor)) for name, tensor in named_tensors(module).items())


def of_named(digests: Iterable[tuple[str, str]]) -> str:
    found = hashlib.sha256()
    for name, value in sorted(digests):
        found.update(f"{name}={value};".encode())
    return found.hexdigest()


def pack_state(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return the tensors that a rank loads to become the caller: read with ``weights_only=True``."""
    return {name: tensor.detach().cpu() for name, tensor in named_tensors(module).items() if not _without_values(tensor)}


def load_state(module: torch.nn.Module, state: Mapping[str, torch.Tensor]) -> list[str]:
    """Copy the caller's tensors in place and return the names that the module doesn't have."""
    tensors = named_tensors(module)
    missing = []
    for name, value in state.items():
        tensor = tensors.get(name)
        if tensor is None:
            missing.append(name)
        else:
            put(tensor, value)
    return missing


def put(tensor: torch.Tensor, value: torch.Tensor) -> None:
    """Give ``tensor`` the values of another, in place whatever its shape and dtype were."""
    if is_lazy(tensor):
        tensor.materialize(value.shape, device=torch.device("cpu"), dtype=value.dtype)
    same = tensor.shape == value.shape and tensor.dtype == value.dtype and tensor.layout == value.layout
    with torch.no_grad():
        if same and tensor.device.type != "meta":
            tensor.data.copy_(value)
        else:
            tensor.data = value.to(tensor.device) if tensor.device.type != "meta" else value
