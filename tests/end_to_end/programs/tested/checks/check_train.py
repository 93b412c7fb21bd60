"""Checks that train: each behaves as if its calls ran in this very process."""

import os
from pathlib import Path

import lightning.pytorch as pl
import pytest
from tinynet import Tiny, rows, trainer

RAN: list[str] = []


class Writes(pl.Callback):
    """Has each rank write a file of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def on_train_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        (self.folder / f"rank{trainer.global_rank}.txt").write_text("written in the call")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[pl.Trainer, Tiny]:
    """One fit for several checks."""
    net, fits = Tiny(), trainer(tmp_path_factory.mktemp("trained"))
    fits.fit(net, rows())
    return fits, net


@pytest.fixture(autouse=True)
def counted(request: pytest.FixtureRequest) -> None:
    RAN.append(request.node.name)


def test_without_a_call() -> None:
    assert RAN[-1] == "test_without_a_call"


def test_what_a_fixture_trained_is_here(trained: tuple[pl.Trainer, Tiny]) -> None:
    fits, net = trained
    assert fits.global_step == 2
    assert net.seen is not None
    assert "test_what_a_fixture_trained_is_here" in net.seen


def test_it_trains_again_from_its_files(noted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fits = trainer(noted, callbacks=[Writes(noted / "kept")])
    fits.fit(Tiny(), rows())
    (noted / "after").mkdir()
    (checkpoint,) = noted.glob("checkpoints/*.ckpt")
    (found,) = trainer(noted).test(Tiny(), rows(), ckpt_path=str(checkpoint))
    assert found["loss"] >= 0
    assert sorted(path.name for path in (noted / "kept").iterdir()) == ["note.txt", "rank0.txt", "rank1.txt"]
    assert os.listdir(noted / "after") == []
    assert capsys.readouterr().out.count("inside of the call on rank 0") == 1


def test_that_is_wrong(trained: tuple[pl.Trainer, Tiny]) -> None:
    assert trained[0].global_step == 3


@pytest.mark.parametrize("epochs", [1, 2])
def test_each_parameter_has_a_call(tmp_path: Path, epochs: int) -> None:
    fits = trainer(tmp_path, max_epochs=epochs)
    fits.fit(Tiny(), rows())
    assert fits.global_step == 2 * epochs
    assert len(list(tmp_path.rglob("*.ckpt"))) == 1


def test_a_call_fails(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no luck"):
        trainer(tmp_path).fit(Tiny(fails=True), rows())


def test_after_a_failure(tmp_path: Path, trained: tuple[pl.Trainer, Tiny]) -> None:
    fits = trainer(tmp_path)
    fits.fit(trained[1], rows())
    assert fits.global_step == 2


def test_that_is_not_asked_for() -> None:
    raise AssertionError
