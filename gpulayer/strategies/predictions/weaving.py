"""Makes one device's predictions of those of all ranks. No torch.distributed here: shares in, predictions out."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

_TURNS = "the predictions of all ranks follow each other, rank by rank"

Kind = Literal["dealt", "own", "other"]


@dataclass
class LoaderShare:
    """What one rank predicted of one loader, a value for each of its batches.

    A ``dealt`` loader's batches were dealt out in an order whose ``marks`` tell it from others. An ``own`` one has a
    ``DistributedSampler`` of the user's, and ``indices`` are the samples of each batch. For any ``other`` one, ``digests``
    tell the batches apart; None stands for one that can't be told.
    """

    kind: Kind
    name: str
    predictions: list[Any] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    indices: list[list[int]] = field(default_factory=list)
    digests: list[str | None] = field(default_factory=list)


def weave(shares: Sequence[LoaderShare]) -> tuple[list[Any], str | None]:
    """Weave what all ranks predicted of one loader; the second is what the user should know about it.

    ``shares`` stand in the order of ranks (of data-parallel replicas, where several ranks hold one model).
    """
    first = shares[0]
    if first.kind == "dealt":
        walked = min(len(share.marks) for share in shares)  # each rank stops where it has its last batch
        if all(share.marks[:walked] == first.marks[:walked] for share in shares):
            return _interleaved(shares), None
        return _in_turn(shares), f"{first.name} drew another order on each rank: {_TURNS}, and some rows may be missing"
    if first.kind == "own":
        return _by_indices(shares)
    if None not in first.digests and first.digests and all(share.digests == first.digests for share in shares):
        return first.predictions, None
    if all(not share.predictions for share in shares):
        return [], None
    return _in_turn(shares), f"{first.name} drew batches of its own on each rank: {_TURNS}"


def _interleaved(shares: Sequence[LoaderShare]) -> list[Any]:
    missing = object()
    turns = itertools.zip_longest(*(share.predictions for share in shares), fillvalue=missing)
    return [prediction for turn in turns for prediction in turn if prediction is not missing]


def _in_turn(shares: Sequence[LoaderShare]) -> list[Any]:
    return [prediction for share in shares for prediction in share.predictions]


def _by_indices(shares: Sequence[LoaderShare]) -> tuple[list[Any], str | None]:
    """Put rows into the order of the dataset, each once, in batches as large as they were; else whole batches in turns."""
    rows: dict[int, tuple[Any, int]] = {}
    sizes = [len(batch) for share in shares for batch in share.indices]
    for share in shares:
        for prediction, batch in zip(share.predictions, share.indices, strict=False):
            if not _has_rows(prediction, len(batch)):
                return _interleaved(shares), _doubles(shares)
            for row, index in enumerate(batch):
                rows.setdefault(index, (prediction, row))
    if not rows:
        return _interleaved(shares), None
    places = [rows[index] for index in sorted(rows)]
    try:
        return [_stacked(places[at : at + max(sizes)]) for at in range(0, len(places), max(sizes))], None
    except (RuntimeError, LookupError, TypeError, AttributeError):  # rows of unlike shapes are no batch
        return _interleaved(shares), _doubles(shares)


def _doubles(shares: Sequence[LoaderShare]) -> str | None:
    drawn = [index for share in shares for batch in share.indices for index in batch]
    if len(drawn) == len(set(drawn)):
        return None
    return f"{shares[0].name} gave some rows to several ranks, and its predictions can't be taken apart: they are there twice"


def _has_rows(prediction: Any, count: int) -> bool:
    if isinstance(prediction, torch.Tensor):
        return prediction.dim() > 0 and prediction.shape[0] == count
    if isinstance(prediction, Mapping):
        return bool(prediction) and all(_has_rows(part, count) for part in prediction.values())
    return isinstance(prediction, list | tuple) and bool(prediction) and all(_has_rows(part, count) for part in prediction)


def _stacked(places: Sequence[tuple[Any, int]]) -> Any:
    one = places[0][0]
    if isinstance(one, torch.Tensor):
        return torch.stack([part[row] for part, row in places])
    if isinstance(one, Mapping):
        return {key: _stacked([(part[key], row) for part, row in places]) for key in one}
    made = [_stacked([(part[at], row) for part, row in places]) for at in range(len(one))]
    if isinstance(one, tuple):
        return type(one)(*made) if hasattr(one, "_fields") else tuple(made)
    return made
