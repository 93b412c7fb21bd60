"""What a bundle left out appears in the work folder, as links."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest

from gpulayer.artifacts import bundle, links
from gpulayer.errors import UnsafeArchive
from tests.artifacts.given import a_folder, a_repository


def in_place(root: Path, work: Path) -> None:
    packed = bundle.pack(root, root.parent / "bundle.zip")
    bundle.unpack(root.parent / "bundle.zip", work)
    told: list[dict[str, Any]] = json.loads(json.dumps([dataclasses.asdict(each) for each in packed.left_out]))
    bundle.link_left_out(told, root, work)


def test_left_out_data_is_there_as_at_home(tmp_path: Path) -> None:
    files = {".gitignore": "data/\n*.bin\n", "train.py": "", "data/train.csv": "1,2", "data/deep/x.csv": "3", "sub/w.bin": "w"}
    root, work = a_repository(tmp_path / "src", files), tmp_path / "work"
    in_place(root, work)
    assert (work / "data/train.csv").read_text() == "1,2"
    assert (work / "data/deep/x.csv").read_text() == "3"
    assert (work / "sub/w.bin").read_text() == "w"
    assert not (work / "train.py").is_symlink()


def test_what_the_job_adds_to_a_left_out_folder_stays_in_the_work_folder(tmp_path: Path) -> None:
    files = {
        "train.py": "",
        "lightning_logs/version_0/metrics.csv": "old",
        "checkpoints/last.ckpt": "old",
        "out/x": "",
        ".gitignore": "out/\n",
    }
    root, work = a_repository(tmp_path / "src", files), tmp_path / "work"
    in_place(root, work)
    assert os.listdir(work / "lightning_logs") == ["version_0"]
    assert (work / "checkpoints/last.ckpt").read_text() == "old"
    for name in ("lightning_logs/version_1", "checkpoints", "out"):
        (work / name).mkdir(exist_ok=True)
        (work / name / "new").write_text("new")
        assert not (root / name / "new").exists()


def test_environments_are_linked_whole_and_caches_not_at_all(tmp_path: Path) -> None:
    files = {
        "train.py": "",
        ".venv/pyvenv.cfg": "",
        ".venv/lib/x.py": "",
        "node_modules/m/i.js": "",
        "__pycache__/train.pyc": "",
        ".mypy_cache/x": "",
    }
    root, work = a_folder(tmp_path / "src", files), tmp_path / "work"
    in_place(root, work)
    assert sorted(os.listdir(work)) == [".venv", "node_modules", "train.py"]
    assert os.readlink(work / ".venv") == str(root / ".venv")
    assert os.readlink(work / "node_modules") == str(root / "node_modules")


def test_a_folder_of_very_many_files_is_linked_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "_LINKS_PER_FOLDER", 10)
    many = {f"data/{number}": "" for number in range(20)}
    few = {"runs/a/1": "", "runs/b/1": "", **{f"runs/c/{number}": "" for number in range(20)}}
    root, work = a_repository(tmp_path / "src", {".gitignore": "data/\nruns/\n", **many, **few}), tmp_path / "work"
    in_place(root, work)
    assert (work / "data").is_symlink()
    assert not (work / "runs").is_symlink()
    assert not (work / "runs/a").is_symlink()
    assert (work / "runs/c").is_symlink()
    assert len(os.listdir(work / "data")) == len(os.listdir(work / "runs/c")) == 20


def test_a_left_out_link_leads_where_it_leads_at_home(tmp_path: Path) -> None:
    a_folder(tmp_path / "disk", {"train.csv": "1"})
    root = a_folder(tmp_path / "src", {"train.py": "", "data": f"-> {tmp_path / 'disk'}", ".gpulayerignore": "/data\n"})
    in_place(root, tmp_path / "work")
    assert (tmp_path / "work/data/train.csv").read_text() == "1"


def test_a_work_folder_below_what_was_left_out_is_not_linked_into_itself(tmp_path: Path) -> None:
    root = a_repository(
        tmp_path / "src", {".gitignore": "scratch/\n", "scratch/x": "", "scratch/home/work/other": "", "a.py": ""}
    )
    work = root / "scratch/home/work/job"
    in_place(root, work)
    assert (work / "scratch/x").is_symlink()
    assert not (work / "scratch/home/work/job").exists()
    assert not (work / "scratch").is_symlink()


def test_what_is_gone_or_already_there_is_passed_over(tmp_path: Path) -> None:
    root, work = a_folder(tmp_path / "src", {"b": "home"}), a_folder(tmp_path / "work", {"b": "mine"})
    links.link_left_out([{"path": "a", "rule": "", "dir": False}, {"path": "b", "rule": "", "dir": False}], root, work)
    assert (work / "b").read_text() == "mine"
    assert os.listdir(work) == ["b"]


@pytest.mark.parametrize("path", ["/etc", "../x", "a/../../x", ""])
def test_a_list_that_names_something_outside_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(UnsafeArchive):
        links.link_left_out([{"path": path, "rule": "", "dir": True}], tmp_path, a_folder(tmp_path / "work", {}))
