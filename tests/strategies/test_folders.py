"""Which folders a call leaves without a file in them."""

from __future__ import annotations

from pathlib import Path

from gpulayer.strategies import folders


def test_empty_folders_are_found_and_links_are_not_followed(tmp_path: Path) -> None:
    for path in ("work/a/empty", "work/b/__pycache__", "elsewhere/empty"):
        (tmp_path / path).mkdir(parents=True)
    (tmp_path / "work/b/file").touch()
    (tmp_path / "work/link").symlink_to(tmp_path / "elsewhere")
    assert folders.empty(str(tmp_path / "work")) == [f"{tmp_path}/work/a/empty"]


def test_a_folder_that_is_empty_itself_is_none_of_its_own(tmp_path: Path) -> None:
    assert folders.empty(str(tmp_path)) == []
