"""A module that is spread over ranks, shown as the caller has it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from gpulayer.strategies import digest, sharded


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[None]:
    """A group of one process."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


class Tied(nn.Module):
    """Two layers that share a parameter, and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4, bias=False)
        self.second.weight = self.first.weight
        self.register_buffer("seen", torch.ones(1))


def looks(module: nn.Module) -> tuple[object, ...]:
    return type(module), dict(module.first._parameters), [dict(hooks) for hooks in sharded._hooks(module)]


@pytest.mark.usefixtures("alone")
def test_it_is_whole_while_it_is_shown_and_itself_again_after() -> None:
    module = Tied()
    plain, known = {name: value.clone() for name, value in module.state_dict().items()}, digest.of_state(module)
    assert not sharded.is_sharded(module)
    fully_shard(module, mesh=init_device_mesh("cpu", (1,)))
    assert sharded.is_sharded(module)
    spread = looks(module)

    whole = sharded.gather(module, module)

    with sharded.shown(module, whole):
        assert type(module) is Tied
        assert module.second.weight is module.first.weight
        assert not any(hooks for hooks in sharded._hooks(module))
        assert all(torch.equal(value, plain[name]) for name, value in module.state_dict().items())
    assert looks(module) == spread
    assert sharded.known_digest(module) == known
    with sharded.shown(module):  # without values, as before the next call
        assert [value.is_meta for value in module.parameters()] == [True, True]

    sharded.load(module, module, {**plain, "first.bias": torch.full((4,), 7.0)})
    assert module.first.bias.full_tensor().tolist() == [7.0] * 4


def test_a_module_that_is_not_sharded_is_shown_as_it_is() -> None:
    module = Tied()
    with sharded.shown(module):
        assert dict(module.named_parameters()) == dict(Tied.named_parameters(module))
    assert not sharded.is_partitioned(module)
    module.first.weight = nn.Parameter(torch.empty(0))
    module.first.weight.ds_id = 1
    assert sharded.is_partitioned(module)
