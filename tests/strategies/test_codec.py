"""Values go through ``torch.save`` and come back as themselves."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import io
import math
import pathlib
import re
import types
import uuid
import weakref
from typing import Any

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpulayer.strategies import codec
from gpulayer.strategies.outcome import bodies


class Colour(enum.Enum):
    RED = 1


@dataclasses.dataclass
class Point:
    x: int
    y: Any = None


@dataclasses.dataclass(frozen=True, slots=True)
class Fixed:
    x: int


Pair = collections.namedtuple("Pair", "left right")


class Slotted:
    __slots__ = ("a", "b")


class Named(dict[str, int]):
    note = ""


def there_and_back(value: Any) -> Any:
    encoder = codec.Encoder()
    root = encoder.encode(value)
    written = io.BytesIO()
    bodies.save({"nodes": encoder.nodes, "root": root}, written)
    written.seek(0)
    body = bodies.load(written)
    return codec.Decoder(body["nodes"]).decode(body["root"])


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        2**200,
        -1.5,
        math.inf,
        1 + 2j,
        "text",
        b"\x00bytes",
        bytearray(b"x"),
        (1, (2,)),
        [],
        {1: "a", (1, 2): "b", None: []},
        {1, 2},
        frozenset({3}),
        collections.OrderedDict(a=1),
        collections.defaultdict(list, a=[1]),
        collections.deque([1, 2], maxlen=5),
        collections.Counter("aab"),
        pathlib.Path("/x/y"),
        pathlib.PurePosixPath("z"),
        datetime.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=datetime.UTC),
        datetime.date(2026, 1, 2),
        datetime.timedelta(days=-1, microseconds=3),
        decimal.Decimal("1.10"),
        uuid.UUID(int=7),
        re.compile("a+", re.I),
        range(1, 9, 2),
        slice(1, None),
        ...,
        Colour.RED,
        Point(1, [Point(2)]),
        Fixed(3),
        Pair(1, [2]),
        types.SimpleNamespace(a=[1]),
        torch.float16,
        torch.device("cpu"),
        torch.Size([1, 2]),
        torch.strided,
        numpy.float32(1.5),
        numpy.dtype("int16"),
        len,
        Point,
        math.sqrt,
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_comes_back_equal_and_of_its_type(value: Any) -> None:
    back = there_and_back(value)
    assert type(back) is type(value)
    assert back == value


def test_nan_comes_back() -> None:
    assert math.isnan(there_and_back(math.nan))


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor(float("nan"), dtype=torch.bfloat16),
        torch.arange(6.0).reshape(2, 3).t(),
        torch.zeros(0, 3),
        torch.tensor([True]),
        torch.nn.Parameter(torch.ones(2), requires_grad=False),
        torch.eye(3).to_sparse(),
        torch.tensor([1j]),
    ],
    ids=str,
)
def test_tensors_come_back(tensor: torch.Tensor) -> None:
    from gpulayer.strategies import digest

    back = there_and_back(tensor)
    assert type(back) is type(tensor)
    assert digest.of_tensor(back) == digest.of_tensor(tensor)


def test_a_view_takes_no_more_room_than_it_shows() -> None:
    encoder = codec.Encoder()
    encoder.encode(torch.zeros(1_000_000)[:2])
    written = io.BytesIO()
    bodies.save({"nodes": encoder.nodes}, written)
    assert written.tell() < 10_000


def test_arrays_come_back() -> None:
    for array in (numpy.arange(6, dtype=">i4").reshape(2, 3)[:, ::2], numpy.zeros((0, 2)), numpy.array("2026-01-01", "M8[D]")):
        back = there_and_back(array)
        assert back.dtype == array.dtype
        assert numpy.array_equal(back, array)


def test_slots_and_items_of_a_subclass_come_back() -> None:
    one = Slotted()
    one.a = [1]
    back = there_and_back(one)
    assert back.a == [1]
    assert not hasattr(back, "b")
    named = Named(a=1)
    named.note = "n"
    assert (there_and_back(named), there_and_back(named).note) == ({"a": 1}, "n")


def test_aliases_stay_aliases_and_cycles_are_no_trouble() -> None:
    shared: list[Any] = [1]
    value = {"a": shared, "b": shared}
    shared.append(value)
    back = there_and_back(value)
    assert back["a"] is back["b"]
    assert back["a"][1] is back
    point = Point(1)
    point.y = weakref.proxy(point)
    assert there_and_back(point).y.x == 1


def test_modules_are_made_anew_without_their_constructors() -> None:
    made = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3)).eval()
    back = there_and_back(made)
    x = torch.randn(4, 2)
    assert torch.equal(back(x), made(x))
    assert isinstance(back[0].weight, torch.nn.Parameter)


@pytest.mark.parametrize(
    "value", [lambda: 1, (x for x in ()), open, __import__("threading").Lock(), [lambda: 1], Point(1, lambda: 1)], ids=str
)
def test_what_is_not_data_is_refused_with_its_place(value: Any) -> None:
    if value is open:  # a function that both sides have by the same name
        assert there_and_back(value) is open
        return
    with pytest.raises(codec.NotCarried):
        codec.Encoder().encode(value)


def test_a_refused_value_leaves_nothing_behind() -> None:
    encoder = codec.Encoder()
    shared = [1]
    with pytest.raises(codec.NotCarried):
        encoder.encode([shared, lambda: 1])
    assert encoder.nodes == []
    assert codec.Decoder(encoder.nodes).decode(encoder.encode(shared)) == [1] if encoder.nodes else True


def test_no_class_of_the_standard_library_is_made_by_name() -> None:
    node = {"k": "object", "module": "subprocess", "name": "Popen", "whole": True, "attrs": {}}
    with pytest.raises(codec.Lost):
        codec.Decoder([node]).decode((0,))


def test_nothing_is_imported_for_a_name_that_came_in() -> None:
    node = {"k": "name", "module": "antigravity", "name": "geohash"}
    with pytest.raises(codec.Lost):
        codec.Decoder([node]).decode((0,))


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4) | st.tuples(inner, inner),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None)
@given(plain)
def test_any_plain_data_comes_back(value: Any) -> None:
    assert there_and_back(value) == value
