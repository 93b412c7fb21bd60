"""What of a call is fetched at once."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

from gpulayer.client.options import JobOptions
from gpulayer.errors import ArtifactNotFound, CallRefused, JobNotFound
from gpulayer.spec.files import Artifact, Blob
from gpulayer.strategies import fetching, stale
from gpulayer.strategies.fetching import Fetching, Left
from gpulayer.strategies.stale import Owed
from tests.client.test_checkpoints import Kept, made

FILES = [
    Artifact(job_id="job-1", attempt=1, path=f"node0/{name}", blob=Blob(sha256=name, size=2_000_000_000))
    for name in ("a.ckpt", "b.ckpt", "c.ckpt")
]


def of(options: JobOptions) -> Fetching:
    plane: Any = Kept(made("a.ckpt", 1.0, score=1.0), made("b.ckpt", 2.0, score=3.0), made("c.ckpt", 3.0, score=2.0))
    return Fetching(plane, "job-1", options, None, None)


def test_more_than_the_limit_is_fetched_as_the_best_and_said() -> None:
    small, large = of(JobOptions()), of(JobOptions())
    assert small.choose(FILES[:2], Path) is None
    assert small.words is None
    choice = large.choose(FILES, Path)
    assert choice is not None
    assert choice.kept == {"c.ckpt"}  # without a mode, the newest with a score
    assert large.words == (
        "outputs are 6 GB, over fetch_limit (4 GB): fetched only the best checkpoint; gpulayer.fetch(trainer) brings the rest."
    )


def test_who_asks_for_less_is_not_told_of_limits() -> None:
    asked = of(JobOptions(fetch="last", fetch_limit=1))
    choice = asked.choose(FILES, Path)
    assert choice is not None
    assert choice.kept == {"c.ckpt"}
    assert asked.words is None


def test_callbacks_name_files_that_came_by_their_paths(tmp_path: Path) -> None:
    saved = ModelCheckpoint(tmp_path, monitor="loss")
    trainer = pl.Trainer(accelerator="cpu", logger=False, callbacks=[saved], enable_progress_bar=False)
    urls = {name: f"gpulayer://job-1/node0/{name}" for name in ("a", "b")}
    saved.best_model_path, saved.kth_best_model_path = urls["a"], urls["b"]
    kept = saved.best_k_models
    kept |= {urls["a"]: 1.0, urls["b"]: 2.0}  # type: ignore[dict-item]
    fetching.rename(trainer, {urls["a"]: "/caller/a"})
    assert (saved.best_model_path, saved.kth_best_model_path) == ("/caller/a", urls["b"])
    assert saved.best_k_models is kept
    assert list(kept) == ["/caller/a", urls["b"]]
    assert saved.dirpath == str(tmp_path)


def test_a_trainer_of_another_kind_has_nothing_to_fetch() -> None:
    with pytest.raises(CallRefused, match="is not one of GPUlayer"):
        fetching.fetch(pl.Trainer(accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False))


@pytest.mark.parametrize(
    ("size", "words"), [(3, "3 bytes"), (5.2e9, "5.2 GB"), (4e9, "4 GB"), (44_123, "44 kB"), (12e6, "12 MB")]
)
def test_sizes_are_written_for_people(size: float, words: str) -> None:
    assert fetching.in_units(size) == words


def test_what_is_gone_is_said_and_what_is_there_comes_all_the_same() -> None:
    def gone() -> dict[str, str]:
        raise JobNotFound("There is no job-1.")

    saved, net = ModelCheckpoint(), torch.nn.Linear(1, 1)
    saved.best_model_path = "gpulayer://job-2/node0/a"
    stale.leave(net, "job-2", Owed("a", lambda: 3.0, lambda part: torch.nn.init.constant_(net.weight, part)))
    came = Left(lambda: {saved.best_model_path: "/caller/a"}, [net])
    strategy = SimpleNamespace(gpulayer_wish=True, left={"job-1": Left(gone), "job-2": came}, spelled={})
    trainer = SimpleNamespace(strategy=strategy, checkpoint_callbacks=[saved], ckpt_path=None)

    for _ in range(2):
        with pytest.raises(ArtifactNotFound, match="What stayed with job-1 is not there any more"):
            fetching.fetch(trainer)
        assert (saved.best_model_path, net.weight.item(), list(strategy.left)) == ("/caller/a", 3.0, ["job-1"])
    strategy.left = {}
    fetching.fetch(trainer)
    strategy.left = None
    with pytest.raises(CallRefused, match="No call of this Trainer has come home"):
        fetching.fetch(trainer)
