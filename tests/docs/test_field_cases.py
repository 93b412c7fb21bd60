"""The page of trial cases names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)")


def test_every_test_that_it_names_exists() -> None:
    named = NAMED.findall((ROOT / "docs/reference/field-cases.md").read_text())
    assert len(named) > 40
    missing = [f"{path}::{name}" for path, name in named if not defines(ROOT / path, name)]
    assert missing == []


def defines(path: Path, name: str) -> bool:
    return path.is_file() and re.search(rf"^(def {name}\(|{name} = )", path.read_text(), re.M) is not None
