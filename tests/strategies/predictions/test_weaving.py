"""What all ranks predicted becomes what one device would have."""

from __future__ import annotations

from collections import namedtuple

import pytest
import torch

from gpulayer.strategies.predictions.batches import digest_of
from gpulayer.strategies.predictions.weaving import LoaderShare, weave

Pair = namedtuple("Pair", "left right")


def own(*batches: list[int], of: object = None) -> LoaderShare:
    made = [torch.tensor([[float(index)] for index in batch]) for batch in batches]
    share = LoaderShare("own", "dataloader 0", indices=list(batches), predictions=list(made))
    if of is not None:
        share.predictions = [of(each) for each in made]  # type: ignore[operator]
    return share


def test_dealt_batches_alternate() -> None:
    shares = [
        LoaderShare("dealt", "", ["a", "c", "e"], marks=[1, 2, 3, 4, 5]),
        LoaderShare("dealt", "", ["b", "d"], marks=[1, 2, 3, 4]),
    ]
    assert weave(shares) == (["a", "b", "c", "d", "e"], None)
    assert weave([LoaderShare("dealt", "", [None]), LoaderShare("dealt", "", [None])]) == ([None, None], None)


def test_ranks_that_did_not_agree_on_an_order_are_named() -> None:
    shares = [
        LoaderShare("dealt", "dataloader 1", ["a"], marks=[1, 2]),
        LoaderShare("dealt", "dataloader 1", ["b"], marks=[1, 3]),
    ]
    found, note = weave(shares)
    assert found == ["a", "b"]
    assert note is not None
    assert "dataloader 1" in note


def test_rows_of_a_distributed_sampler_come_in_the_order_of_the_dataset_each_once() -> None:
    found, note = weave([own([0, 2], [4]), own([1, 3], [0])])
    assert note is None
    assert [each.flatten().tolist() for each in found] == [[0.0, 1.0], [2.0, 3.0], [4.0]]


@pytest.mark.parametrize(
    "of",
    [
        lambda rows: {"a": rows, "b": [rows, (rows,)]},
        lambda rows: Pair(rows, rows * 2),
    ],
)
def test_nested_predictions_are_taken_apart_by_rows(of: object) -> None:
    found, _ = weave([own([0, 2], of=of), own([1, 3], of=of)])
    leaves = [each["b"][1][0] if isinstance(each, dict) else each.left for each in found]
    assert [leaf.flatten().tolist() for leaf in leaves] == [[0.0, 1.0], [2.0, 3.0]]
    assert isinstance(found[0], dict | Pair)


def test_predictions_without_rows_stay_whole_and_doubles_are_told() -> None:
    found, note = weave([own([0, 2], of=torch.sum), own([1, 0], of=torch.sum)])
    assert [each.item() for each in found] == [2.0, 1.0]
    assert note is not None
    assert "twice" in note
    assert weave([own([0, 2], of=torch.sum), own([1, 3], of=torch.sum)])[1] is None


def test_rows_of_unlike_shapes_stay_in_their_batches() -> None:
    one = LoaderShare("own", "", [torch.zeros(2, 3)], indices=[[0, 2]])
    two = LoaderShare("own", "", [torch.zeros(2, 5)], indices=[[1, 3]])
    found, note = weave([one, two])
    assert [each.shape for each in found] == [(2, 3), (2, 5)]
    assert note is None


def test_the_same_batches_on_every_rank_count_once() -> None:
    same = LoaderShare("other", "", ["a", "b"], digests=["1", "2"])
    assert weave([same, LoaderShare("other", "", ["a'", "b'"], digests=["1", "2"])]) == (["a", "b"], None)


def test_batches_of_its_own_on_each_rank_follow_each_other_and_the_loader_is_named() -> None:
    for digests in ([["1"], ["2"]], [[None], [None]]):
        shares = [LoaderShare("other", "dataloader 2", [rank], digests=digests[rank]) for rank in range(2)]
        found, note = weave(shares)
        assert found == [0, 1]
        assert note is not None
        assert note.startswith("dataloader 2 ")
    assert weave([LoaderShare("other", "", []), LoaderShare("other", "", [])]) == ([], None)


def test_batches_are_told_apart_by_every_value_in_them() -> None:
    batch = {"x": torch.zeros(2), "y": [1, "a", None]}
    assert digest_of(batch) == digest_of({"x": torch.zeros(2), "y": [1, "a", None]})
    for other in ({"x": torch.zeros(2, 1), "y": [1, "a", None]}, {"x": torch.zeros(2), "y": [1, "b", None]}, [batch]):
        assert digest_of(other) != digest_of(batch)
    assert digest_of([object()]) is None
