"""Modules whose tensors are spread over the ranks (FSDP, ``fully_shard``, tensor parallel), shown whole for the caller.

What torch puts into such a module is told by its public names where it has some; the private ones are the constants below.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, cast
from weakref import WeakKeyDictionary

import torch
from torch import nn

from gpulayer.strategies import digest, kinds

_FLAT = "_flat_param"
"""Where FSDP keeps the parameters of a module as one."""

_WRAPPED = "_fsdp_wrapped_module."
_MARKS = ("__composable_api", "_is_fsdp", "_fsdp")
"""How attributes begin that torch adds to a module which it shards."""


@dataclass(frozen=True)
class Whole:
    """A module's parameters and persistent buffers by name, as they were gathered; ``digest`` is that of all its tensors."""

    tensors: Mapping[str, torch.Tensor]
    digest: str = ""


_SHAPES: WeakKeyDictionary[nn.Module, Whole] = WeakKeyDictionary()
"""What was last gathered of a module, as tensors without values."""


def is_sharded(module: Any) -> bool:
    """Say whether a module's parameters are spread over the ranks."""
    if not isinstance(module, nn.Module) or "torch.distributed.tensor" not in sys.modules:
        return False
    return any(_is_wrapper(each) for each in module.modules()) or any(map(_is_spread, module.parameters()))


def is_partitioned(module: Any) -> bool:
    """Say whether DeepSpeed holds a module's parameters in parts: those are gathered by its engine alone."""
    return isinstance(module, nn.Module) and any(hasattr(each, "ds_id") and not each.numel() for each in module.parameters())


def _is_spread(tensor: Any) -> bool:
    return type(tensor).__module__.startswith("torch.distributed") or hasattr(tensor, "full_tensor")


def _is_wrapper(module: nn.Module) -> bool:
    fsdp = sys.modules.get("torch.distributed.fsdp")
    return fsdp is not None and isinstance(module, fsdp.FullyShardedDataParallel)


def gather(outer: nn.Module, module: nn.Module) -> Whole | None:
    """Gather the whole of a module, ``outer`` with what a strategy has wrapped around it; a collective of all ranks.

    Only rank 0 gets the values, on the CPU; for all it is known from then on how the module looks as a whole.
    """
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

    first = torch.distributed.get_rank() == 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's of its own FSDP
        found = get_model_state_dict(outer, options=StateDictOptions(full_state_dict=False))
    tensors, looks = {}, {}
    for name, part in found.items():
        if isinstance(part, torch.Tensor):
            plain = name.replace(_WRAPPED, "")
            looks[plain] = torch.empty(_shape(part), dtype=part.dtype, device="meta")
            value = _whole(part)
            if first:
                tensors[plain] = value.detach().cpu()
    if not first:
        _SHAPES[module] = Whole(looks)
        return None
    with shown(module, Whole(tensors)):
        known = digest.of_state(module)
    _SHAPES[module] = Whole(looks, known)
    return Whole(tensors, known)


def _shape(part: torch.Tensor) -> torch.Size:
    metadata: Any = getattr(part, "metadata", None)  # of FSDP's own kind of spread tensor, whose shape is not to be asked for
    return part.shape if metadata is None else metadata().size


def _whole(part: Any) -> torch.Tensor:
    """Put a tensor together from the parts that the ranks have; a collective, and only rank 0's is whole for sure."""
    if hasattr(part, "full_tensor"):
        return cast(torch.Tensor, part.full_tensor())
    if not hasattr(part, "metadata"):
        return cast(torch.Tensor, part)
    shards = part.local_shards()
    # NCCL gathers on the GPU alone; a rank may have no part of a small tensor.
    device = shards[0].tensor.device if shards else "cuda" if torch.distributed.get_backend() == "nccl" else "cpu"
    whole = torch.empty(part.metadata().size, dtype=part.dtype, device=device)
    part.gather(dst=0, out=whole if torch.distributed.get_rank() == 0 else None)
    return whole


def known_digest(module: nn.Module) -> str:
    """Return the digest of what was last gathered of a sharded module, empty before the first time and but on rank 0."""
    found = _SHAPES.get(module)
    return "" if found is None else found.digest


@contextmanager
def shown(module: Any, whole: Whole | None = None) -> Iterator[None]:
    """Have a sharded module look as it would without sharding, for as long as the block runs; others stay as they are.

    Its parameters are those of ``whole``, else of the right shapes without values.
    """
    if whole is None and not is_sharded(module):
        yield
        return
    seen = whole or _SHAPES.get(module) or Whole({})
    with ExitStack() as undo:
        made: dict[int, nn.Parameter] = {}
        for name, each in _unwrapped(module):
            _show(each, name, seen.tensors, made, undo)
        yield


def _unwrapped(module: nn.Module) -> list[tuple[str, nn.Module]]:
    """Return the modules inside by the names that they have without wrappers, and the wrappers left out."""
    found: dict[str, nn.Module] = {}
    for name, each in module.named_modules(remove_duplicate=False):
        if not _is_wrapper(each):
            found.setdefault(f"{name}.".replace(_WRAPPED, "").removeprefix("."), each)
    return list(found.items())


def _show(
    module: nn.Module, prefix: str, tensors: Mapping[str, torch.Tensor], made: dict[int, nn.Parameter], undo: ExitStack
) -> None:
    """Show one module as it would be, and leave in ``undo`` how it is."""
    for holder in _tables(module):
        undo.callback(_refill, holder, dict(holder))
    undo.callback(_refill, module.__dict__, dict(module.__dict__))
    for name, child in module._modules.items():
        while child is not None and _is_wrapper(child):
            child = cast(nn.Module, child.module)
        module._modules[name] = child
    for hooks in _hooks(module):
        for key in [key for key, hook in hooks.items() if _is_torchs(hook)]:
            for each in _hooks(module):
                each.pop(key, None)
    for name, value in list(module.__dict__.items()):
        if name.startswith(_MARKS) or type(value).__module__.startswith("torch.distributed"):
            del module.__dict__[name]
    _show_parameters(module, prefix, tensors, made, undo)
    plain = _plain_class(type(module))
    if plain is not type(module):
        undo.callback(setattr, module, "__class__", type(module))
        module.__class__ = plain


def _show_parameters(
    module: nn.Module, prefix: str, tensors: Mapping[str, torch.Tensor], made: dict[int, nn.Parameter], undo: ExitStack
) -> None:
    own = [name.removeprefix(prefix) for name in tensors if name.startswith(prefix) and "." not in name.removeprefix(prefix)]
    before = dict(module._parameters)
    names = [name for name in own if name not in module._buffers and name not in before] + list(before)
    order = {name: place for place, name in enumerate(own)}
    module._parameters.clear()
    for name in sorted(names, key=lambda name: order.get(name, len(order))):
        value = before.get(name)
        if name == _FLAT:
            continue
        module.__dict__.pop(name, None)
        whole = tensors.get(prefix + name)
        if whole is None or (value is not None and value.shape == whole.shape and not _is_spread(value)):
            module._parameters[name] = value
            continue
        if value is not None and not _is_spread(value) and not whole.is_meta:  # FSDP's of the user's own identity
            undo.callback(setattr, value, "data", value.data)
            value.data = whole
            module._parameters[name] = value
            continue
        key = id(whole if value is None else value)  # tied parameters stay one
        if key not in made:
            made[key] = nn.Parameter(whole, requires_grad=whole.is_floating_point() and (value is None or value.requires_grad))
        module._parameters[name] = made[key]


def _refill(table: dict[str, Any], items: dict[str, Any]) -> None:
    table.clear()
    table.update(items)


def _tables(module: nn.Module) -> list[dict[Any, Any]]:
    return [module._modules, module._parameters, *_hooks(module)]


def _hooks(module: nn.Module) -> list[dict[Any, Any]]:
    tables = (value for name, value in vars(module).items() if "_hooks" in name and isinstance(value, dict))
    return list(tables)


def _is_torchs(hook: Any) -> bool:
    """Say whether sharding has put a hook where it is."""
    for inner in ("hook", "func", "__func__", "__wrapped__"):
        with contextlib.suppress(AttributeError):
            hook = getattr(hook, inner)
    return str(getattr(hook, "__module__", "")).startswith("torch.distributed")


@kinds.cached
def _plain_class(cls: type[nn.Module]) -> type[nn.Module]:
    """Return the class that ``fully_shard`` derived another one from."""
    derived = len(cls.__bases__) == 2 and cls.__bases__[0].__module__.startswith("torch.distributed")
    return cls.__bases__[1] if derived else cls


def load(outer: nn.Module, module: nn.Module, state: Mapping[str, torch.Tensor]) -> None:
    """Give a sharded module the caller's tensors, which every rank has whole."""
    from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict

    buffers = {name.replace(_WRAPPED, ""): value for name, value in module.named_buffers(remove_duplicate=False)}
    weights: dict[str, Any] = {name: value for name, value in state.items() if name not in buffers}
    set_model_state_dict(outer, weights, options=StateDictOptions(full_state_dict=True, strict=False))
    for name, value in buffers.items():
        if name in state:
            digest.put(value, state[name])


def optimizer_state(outer: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Gather an optimizer's state as an unsharded one has it, with parameters by number; a collective of all ranks."""
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_optimizer_state_dict

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found: Any = get_optimizer_state_dict(outer, optimizer, options=StateDictOptions(full_state_dict=False))
    place = _places(outer, optimizer)
    groups = [{**group, "params": sorted(group["params"], key=place.__getitem__)} for group in found.get("param_groups", ())]
    numbers = {name: number for number, name in enumerate(name for group in groups for name in group["params"])}
    return {
        "state": {
            numbers[name]: {key: _whole(part) if isinstance(part, torch.Tensor) else part for key, part in state.items()}
            for name, state in sorted(found.get("state", {}).items(), key=lambda each: numbers[each[0]])
        },
        "param_groups": [{**group, "params": [numbers[name] for name in group["params"]]} for group in groups],
    }


def _places(outer: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, int]:
    """Return where each parameter stands in its optimizer, or where that has them as one, in the module."""
    own = {id(value): place for place, value in enumerate(each for group in optimizer.param_groups for each in group["params"])}
    known = (found for module, found in _SHAPES.items() if any(each is module for each in outer.modules()))
    places = {name: place for place, name in enumerate(next(known, Whole({})).tensors)}
    for name, value in outer.named_parameters():
        if id(value) in own:
            places[name.replace(_WRAPPED, "")] = own[id(value)]
    return places
