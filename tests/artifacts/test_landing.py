"""Names from elsewhere that must not lead out of the folder that their files are for."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpulayer.artifacts import landing
from gpulayer.errors import UnsafePath

BAD = ["", "/etc/passwd", "..", "node0/../../x", "node0//etc/passwd", "a/./b", "a/", "a\0b"]


@pytest.mark.parametrize("path", BAD)
def test_a_name_that_is_not_plain_is_refused_by_name(tmp_path: Path, path: str) -> None:
    with pytest.raises(UnsafePath) as refused:
        landing.below(tmp_path, path)
    assert repr(path) in refused.value.sentence


def test_a_link_in_the_folder_that_leads_out_of_it_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "out").symlink_to(tmp_path)
    with pytest.raises(UnsafePath, match="'out/x' leads out of"):
        landing.below(folder, "out/x")


@pytest.mark.parametrize("path", ["node0/metrics.csv", "node0/..hidden", "-x"])
def test_other_names_lie_below_the_folder_even_before_it_is_there(tmp_path: Path, path: str) -> None:
    assert landing.below(tmp_path / "later", path) == tmp_path / "later" / path
