"""What the checks share: a folder with a note in it."""

from pathlib import Path

import pytest


@pytest.fixture
def noted(tmp_path: Path) -> Path:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "note.txt").write_text("written before the call")
    return tmp_path
