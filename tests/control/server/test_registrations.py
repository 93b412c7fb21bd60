"""What a worker that comes over the network may say of itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.control.given import a_worker
from tests.control.server.asked import Asked

GPU = {"uuid": "GPU-1", "kind": "cuda", "index": 0}


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Asked]:
    made = Asked(tmp_path / "plane")
    yield made
    made.close()


def registering(asked: Asked, fields: dict[str, Any]) -> int:
    worker = a_worker(origin="existing").model_dump(mode="json")
    able = {**worker["capabilities"], **fields.pop("capabilities", {})}
    answer = asked.one("PUT", f"/v1/workers/{worker['id']}", json={**worker, "capabilities": able, **fields})
    return answer.status_code


def test_a_plain_worker_is_registered(asked: Asked) -> None:
    assert registering(asked, {"slots": 1024, "labels": {"room": "é 1"}, "capabilities": {"devices": [GPU]}}) == 200
    assert len(asked.plane.workers()) == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"origin": "local"},
        *({"slots": slots} for slots in (0, -1, 1025, 10**9)),
        *({"name": name} for name in ("a\nb", "\x1b[2J", "\x85", "n" * 201)),
        *({"labels": labels} for labels in ({"a\nb": "c"}, {"a": "\x00"}, {"k" * 5000: ""}, {str(n): "" for n in range(1025)})),
        {"capabilities": {"devices": [GPU, {**GPU, "index": 1}]}},
        {"capabilities": {"hostname": "h" * 5000}},
    ],
)
def test_what_no_worker_says_is_refused(asked: Asked, fields: dict[str, Any]) -> None:
    assert registering(asked, fields) == 400
    assert asked.plane.workers() == []
