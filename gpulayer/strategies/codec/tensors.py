"""Tensors as nodes, whatever their state: dense, sparse, meta or not made yet."""

from __future__ import annotations

import torch

from gpulayer.strategies.codec.nodes import Node, NotCarried


def tensor_node(value: torch.Tensor) -> Node:
    """Write a tensor: on the CPU, without its graph, and without the rest of a storage that it only views."""
    node: Node = {
        "k": "tensor",
        "grad": bool(value.requires_grad and value.is_leaf),
        "param": isinstance(value, torch.nn.Parameter | torch.nn.parameter.UninitializedParameter),
    }
    if torch.nn.parameter.is_lazy(value):
        return {**node, "k": "lazy"}
    plain = value.detach()
    if hasattr(plain, "full_tensor"):
        raise NotCarried(value)
    if type(plain) is not torch.Tensor:
        plain = plain.as_subclass(torch.Tensor)
    if plain.is_meta:
        return {**node, "k": "meta", "shape": list(plain.shape), "dtype": str(plain.dtype).removeprefix("torch.")}
    plain = plain.cpu()
    if plain.layout is torch.strided and plain.untyped_storage().nbytes() > plain.numel() * plain.element_size():
        plain = plain.clone()
    return {**node, "value": plain}


def make_tensor(node: Node) -> torch.Tensor:
    """Make a new tensor of its node."""
    if node["k"] == "lazy":
        lazy = torch.nn.parameter.UninitializedParameter if node["param"] else torch.nn.parameter.UninitializedBuffer
        return lazy()
    if node["k"] == "meta":
        value = torch.empty(node["shape"], dtype=getattr(torch, node["dtype"]), device="meta")
    else:
        value = node["value"]
    if node["param"]:
        return torch.nn.Parameter(value, requires_grad=node["grad"])
    return value.requires_grad_() if node["grad"] else value
