"""What the caller says with its go."""

from __future__ import annotations

import io
from pathlib import Path

import lightning.pytorch as pl
import pytest

from gpulayer.strategies import adoption, call_settings
from gpulayer.strategies.paths import PathMap

pytestmark = pytest.mark.filterwarnings("ignore")


def test_versions_folders_and_names_are_the_callers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "csv/version_0/checkpoints").mkdir(parents=True)
    (tmp_path / "fixed").mkdir()
    (tmp_path / "fixed/last.ckpt").touch()
    trainer = pl.Trainer(
        accelerator="cpu",
        logger=pl.loggers.CSVLogger(".", name="csv"),
        callbacks=[pl.callbacks.ModelCheckpoint("fixed"), pl.callbacks.OnExceptionCheckpoint("exc")],
        enable_progress_bar=False,
    )
    packed = call_settings.pack(call_settings.take(trainer, None, True))
    settings = call_settings.unpack(io.BytesIO(packed))
    assert settings.default_root_dir == str(tmp_path)
    assert (settings.loggers[0].save_dir, settings.loggers[0].name, settings.loggers[0].version) == (str(tmp_path), "csv", 1)
    assert {each.dirpath: each.names for each in settings.checkpoints} == {
        str(tmp_path / "fixed"): ["last.ckpt"],
        str(tmp_path / "exc"): [],
    }
    assert str(tmp_path / "fixed") in settings.folders
    assert not (tmp_path / "csv/version_1").exists()


def test_the_start_carries_random_states() -> None:
    import random

    import torch

    noted = {"python": random.getstate(), "torch_seed": 5}
    back = call_settings.unpack_start(io.BytesIO(call_settings.collect_start(noted)))
    assert back["python"] == random.getstate()
    assert back["torch_seed"] == 5
    assert call_settings.unpack_start(io.BytesIO(call_settings.collect_start({})))["torch_seed"] == torch.initial_seed()


def test_folders_that_the_script_made_of_the_time_become_the_callers(tmp_path: Path) -> None:
    def trainer(root: str) -> pl.Trainer:
        return pl.Trainer(accelerator="cpu", default_root_dir=str(tmp_path / root), enable_progress_bar=False)

    at_caller, in_job = trainer("run-0959"), trainer("run-1000")
    paths = PathMap(str(tmp_path), str(tmp_path), str(tmp_path / "work"))

    adoption.adopt(in_job, call_settings.take(at_caller, None, True), paths)

    place = str(tmp_path / "work" / "run-0959")
    assert in_job.default_root_dir == place
    assert in_job.logger is not None
    assert in_job.logger.save_dir == place
    assert in_job.logger.log_dir is not None
    assert in_job.logger.log_dir.startswith(place)


def test_the_best_checkpoint_is_shown_as_its_callback_calls_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "best.ckpt").touch()
    saved = pl.callbacks.ModelCheckpoint(".")
    saved.best_model_path = "./best.ckpt"
    trainer = pl.Trainer(accelerator="cpu", logger=False, callbacks=[saved], enable_progress_bar=False)
    trainer.state.fn = pl.trainer.states.TrainerFn.TESTING

    settings = call_settings.take(trainer, "best", True)

    assert settings.ckpt_path == str(tmp_path / "best.ckpt")
    assert adoption.shown_path("best", settings) == "./best.ckpt"
