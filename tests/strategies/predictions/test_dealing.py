"""Whole batches dealt out to ranks are, taken together, the batches of one device."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler

from gpulayer.strategies.predictions.dealing import Dealt, length_of


def batches(rows: int, size: int) -> BatchSampler:
    return BatchSampler(SequentialSampler(range(rows)), size, drop_last=False)


def deal(order: Any, world: int, **options: Any) -> list[list[Any]]:
    return [list(Dealt(order, rank, world, **options)) for rank in range(world)]


def woven(shares: list[list[Any]]) -> list[Any]:
    return [each for turn in itertools.zip_longest(*shares) for each in turn if each is not None]


@pytest.mark.parametrize("world", [1, 2, 3, 5])
@pytest.mark.parametrize("rows", [0, 1, 4, 7, 22])
def test_all_ranks_together_get_every_batch_once_and_in_order(rows: int, world: int) -> None:
    assert woven(deal(batches(rows, 4), world)) == list(batches(rows, 4))


def test_a_limit_counts_the_batches_of_all_ranks() -> None:
    assert deal(batches(40, 4), 2, limit=3) == [[[0, 1, 2, 3], [8, 9, 10, 11]], [[4, 5, 6, 7]]]


def test_an_even_deal_repeats_the_last_batch_where_a_rank_has_one_less() -> None:
    dealt = [Dealt(batches(7, 2), rank, 3, even=True) for rank in range(3)]
    assert [list(each) for each in dealt] == [[[0, 1], [6]], [[2, 3], [6]], [[4, 5], [6]]]
    assert [each.extra_at for each in dealt] == [None, 1, 1]
    assert [len(each) for each in dealt] == [2, 2, 2]


def test_a_rank_without_a_batch_still_counts_as_one_that_has_some() -> None:
    assert [len(Dealt(batches(2, 4), rank, 3)) for rank in range(3)] == [1, 1, 1]
    assert [len(Dealt(batches(0, 4), rank, 3)) for rank in range(3)] == [0, 0, 0]


class Whimsical:
    """An order that draws from Python's random numbers as it goes."""

    def __len__(self) -> int:
        return 9

    def __iter__(self) -> Iterator[int]:
        left = list(range(9))
        while left:
            yield left.pop(random.randrange(len(left)))


@pytest.mark.parametrize("order", [BatchSampler(RandomSampler(range(9)), 2, False), Whimsical()])
def test_ranks_agree_on_a_random_order_whatever_they_drew_before(order: Any) -> None:
    found = []
    for rank in range(2):
        random.seed(rank)
        torch.manual_seed(rank)
        dealt, got = Dealt(order, rank, 2, seed=5), []
        for batch in dealt:
            random.random()  # the script's own draw, in between
            got.append(batch)
        found.append((got, dealt.marks))
    drawn = [batch if isinstance(batch, list) else [batch] for got, _ in found for batch in got]
    assert sorted(itertools.chain(*drawn)) == list(range(9))
    assert found[0][1] == found[1][1]


def test_drawing_an_order_leaves_the_random_numbers_of_the_script_alone() -> None:
    random.seed(3)
    torch.manual_seed(3)
    expected = (random.random(), torch.rand(1).item())
    random.seed(3)
    torch.manual_seed(3)
    list(Dealt(BatchSampler(RandomSampler(range(9)), 2, False), 0, 2, seed=1))
    assert (random.random(), torch.rand(1).item()) == expected


def test_an_endless_order_is_dealt_out_up_to_its_limit() -> None:
    assert [list(Dealt(itertools.count(), rank, 2, limit=5)) for rank in range(2)] == [[0, 2, 4], [1, 3]]


def test_batches_of_an_endless_order_have_no_length() -> None:
    dealt = Dealt(BatchSampler(itertools.count(), 2, drop_last=False), 1, 2, limit=4)  # type: ignore[arg-type]
    assert length_of(dealt) == 2
    assert length_of(Dealt(BatchSampler(itertools.count(), 2, drop_last=False), 0, 2)) == math.inf  # type: ignore[arg-type]
    assert list(dealt) == [[2, 3], [6, 7]]
