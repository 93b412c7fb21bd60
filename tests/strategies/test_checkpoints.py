"""Which files of a checkpoint are whose, and what is told of them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from gpulayer.strategies import checkpoints
from gpulayer.strategies.checkpoints import Announcer
from gpulayer.strategies.paths import PathMap


class Link:
    def __init__(self) -> None:
        self.announced: list[tuple[str, tuple[str, ...], dict[str, Any]]] = []
        self.awaited: list[int] = []

    def announce(self, path: str, files: tuple[str, ...] = (), **facts: Any) -> int:
        self.announced.append((path, files, facts))
        return len(self.announced)

    def await_kept(self, serial: int) -> None:
        self.awaited.append(serial)


class Strategy:
    """Saves as Lightning's does, on rank 0."""

    def save_checkpoint(self, checkpoint: Any, filepath: Any, storage_options: Any = None) -> None:
        self.saved = checkpoint
        Path(filepath).write_text("x")

    def load_checkpoint(self, path: Any, weights_only: Any = None) -> Any:
        return self.saved

    def remove_checkpoint(self, filepath: Any) -> None:
        Path(filepath).unlink()


def wrapped(tmp_path: Path) -> tuple[Strategy, Link]:
    strategy, link = Strategy(), Link()
    paths = PathMap("/caller", "/caller", str(tmp_path))
    trainer = SimpleNamespace(checkpoint_callbacks=[])
    checkpoints.wrap(strategy, lambda: trainer, Announcer(link, 0, str(tmp_path)), lambda: paths)
    return strategy, link


def test_a_sharded_checkpoints_files_belong_to_the_ranks_that_wrote_them(tmp_path: Path) -> None:
    for name in ("__0_0.distcp", "__1_0.distcp", ".metadata", "meta.pt"):
        (tmp_path / name).touch()
    names = {rank: [Path(file).name for file in checkpoints.files_of(str(tmp_path), rank)] for rank in (0, 1, 2)}
    assert names == {0: [".metadata", "__0_0.distcp", "meta.pt"], 1: ["__1_0.distcp"], 2: []}


def test_a_rank_that_wrote_nothing_announces_no_files(tmp_path: Path) -> None:
    (tmp_path / "x.ckpt").touch()
    assert checkpoints.files_of(str(tmp_path / "x.ckpt"), 1) == ()
    assert checkpoints.files_of(str(tmp_path / "none.ckpt"), 0) == ()


def test_a_save_is_kept_before_its_path_is_written_or_removed_again(tmp_path: Path) -> None:
    strategy, link = wrapped(tmp_path)
    path = tmp_path / "last.ckpt"
    strategy.save_checkpoint({"epoch": 1, "global_step": 8}, path)
    assert link.awaited == []
    strategy.save_checkpoint({"epoch": 2, "global_step": 16}, path)
    strategy.remove_checkpoint(path)
    assert link.awaited == [1, 2]
    assert [facts.get("epoch") for _, _, facts in link.announced] == [1, 2, None]
    assert link.announced[-1][2]["removed"]


def test_callback_states_name_the_callers_paths_only_inside_of_the_file(tmp_path: Path) -> None:
    strategy, _ = wrapped(tmp_path)
    own = {"callbacks": {"M": {"best": f"{tmp_path}/a.ckpt", "scores": {f"{tmp_path}/a.ckpt": 1.0}}}, "epoch": 0}
    strategy.save_checkpoint(own, tmp_path / "a.ckpt")
    assert strategy.saved["callbacks"] == {"M": {"best": "/caller/a.ckpt", "scores": {"/caller/a.ckpt": 1.0}}}
    assert strategy.load_checkpoint(tmp_path / "a.ckpt") == own


def test_what_lies_outside_of_the_work_folder_is_not_announced(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    strategy, link = Strategy(), Link()
    announcer = Announcer(link, 0, str(tmp_path / "work"))
    checkpoints.wrap(strategy, lambda: None, announcer, lambda: PathMap("/c", "/c", str(tmp_path / "work")))
    strategy.save_checkpoint({}, tmp_path / "elsewhere.ckpt")
    assert link.announced == []


def test_one_strategy_is_wrapped_once(tmp_path: Path) -> None:
    strategy, link = wrapped(tmp_path)
    announcer = Announcer(link, 0, str(tmp_path))
    checkpoints.wrap(strategy, lambda: None, announcer, lambda: PathMap("/c", "/c", str(tmp_path)))
    strategy.save_checkpoint({}, tmp_path / "a.ckpt")
    assert len(link.announced) == 1
