"""A module whose weights stayed with a job."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from typing import Any

import pytest
import torch

from gpulayer.errors import BlobNotFound, StaleModule
from gpulayer.strategies import digest, fingerprint, stale
from gpulayer.strategies.stale import Owed


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(3, 2)
        self.norm = torch.nn.BatchNorm1d(2)
        self.last = torch.nn.LSTM(2, 2)


def owed(record: str = "a", read: Callable[[], Any] = dict, apply: Callable[[Any], object] = lambda part: None) -> Owed:
    return Owed(record, read, apply)


@pytest.fixture
def net() -> Net:
    made = Net()
    stale.leave(made, "job-1", owed())
    return made


@pytest.mark.parametrize(
    "use",
    [
        lambda net: net.first(torch.rand(1, 3)),
        lambda net: net.last(torch.rand(1, 1, 2)),
        lambda net: net.state_dict(),
        lambda net: net.norm.running_mean.tolist(),
        lambda net: net.first.weight + 1,
        lambda net: net.first.weight.data,
        lambda net: torch.nn.init.zeros_(net.first.weight),
        lambda net: net.requires_grad_(False),
        lambda net: net.to("meta"),
        lambda net: copy.deepcopy(net),
        lambda net: torch.save(net, io.BytesIO()),
        lambda net: digest.of_state(net),
        lambda net: float(net.first.bias[0]),
    ],
)
def test_its_weights_are_neither_read_nor_changed(net: Net, use: Callable[[Net], Any]) -> None:
    with pytest.raises(StaleModule, match=r"stayed with job-1.*gpulayer\.fetch\(trainer\)"):
        use(net)


def test_loading_others_into_it_says_so_in_torchs_own_error(net: Net) -> None:
    with pytest.raises(RuntimeError, match="stayed with job-1"):
        net.load_state_dict(Net().state_dict())


def test_its_shape_is_known_and_optimizers_can_be_made_of_it(net: Net) -> None:
    assert fingerprint.shapes(net) == fingerprint.shapes(Net())
    assert isinstance(net.first.weight, torch.nn.Parameter)
    assert len(list(torch.optim.Adam(net.parameters()).param_groups[0]["params"])) == 8
    assert "stayed with job-1" in repr(net.first.weight)
    assert "Linear" in repr(net)


def test_it_is_filled_by_call_and_is_a_plain_module_again() -> None:
    net, seen = Net(), []
    for number in (1.0, 2.0):

        def add(part: float) -> None:
            seen.append(part)
            torch.nn.init.constant_(net.first.bias, part)

        stale.leave(net, "job-1", owed(read=lambda number=number: number, apply=add))
    bias = net.first.bias
    stale.fill(net)
    assert seen == [1.0, 2.0]
    assert net.first.bias is bias
    assert type(bias) is torch.nn.Parameter
    assert type(net.norm.running_mean) is torch.Tensor
    assert net.first.bias.tolist() == [2.0, 2.0]
    assert not stale.is_stale(net)
    stale.fill(net)
    assert seen == [1.0, 2.0]


def test_what_can_not_be_read_leaves_it_stale(net: Net) -> None:
    def gone() -> Any:
        raise BlobNotFound("It is gone.")

    stale.leave(net, "job-1", owed(read=gone))
    with pytest.raises(BlobNotFound):
        stale.fill(net)
    assert stale.is_stale(net)
    with pytest.raises(StaleModule):
        net.state_dict()


def test_a_job_that_knows_the_records_may_go_on_from_it(net: Net) -> None:
    assert stale.check(net, ["a", "b"])
    assert not stale.check(Net(), [])
    assert not stale.check(None, [])
    with pytest.raises(StaleModule, match="none of this run's"):
        stale.check(net, ["b"])


def test_some_new_weights_are_refused_and_all_new_weights_are_the_callers(net: Net) -> None:
    old = net.norm
    net.first = torch.nn.Linear(3, 2)
    with pytest.raises(StaleModule, match=r"replaced \(first\.bias\).*fetch\(trainer\) first"):
        stale.check(net, ["a"])
    net.norm, net.last = torch.nn.BatchNorm1d(2), torch.nn.LSTM(2, 2)
    assert not stale.check(net, ["a"])
    assert not stale.is_stale(net)
    assert old.weight.tolist() == [1.0, 1.0]
