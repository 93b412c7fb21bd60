"""How the ranks of a job agree to end; with real processes in tests/end_to_end/test_resume.py."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.utilities.exceptions import SIGTERMException

from gpulayer.strategies import termination


@pytest.fixture
def trainer() -> pl.Trainer:
    quiet: dict[str, Any] = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    made = pl.Trainer(accelerator="cpu", devices=1, **quiet)
    termination.agree_between_batches(made, "lightning.pytorch")
    return made


class Group:
    """A process group in which rank 0 is this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, initialized: bool) -> None:
        self.told: list[int] = []
        monkeypatch.setattr(torch.distributed, "is_initialized", lambda: initialized)
        monkeypatch.setattr(torch.distributed, "broadcast", lambda tensor, src: self.told.append(int(tensor)))
        monkeypatch.setattr(torch.distributed, "barrier", lambda: None)


def test_a_rank_among_others_takes_note_and_ends_with_them_before_the_next_batch(
    trainer: pl.Trainer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    group = Group(monkeypatch, initialized=True)
    monkeypatch.setattr(type(trainer), "world_size", 2)
    trainer.state = SimpleNamespace(fn="fit")  # type: ignore[assignment]
    trainer.fit_loop.epoch_loop._broadcast_sigterm_tensor()
    with caplog.at_level(logging.INFO):
        trainer._signal_connector._sigterm_notifier_fn(15, None)  # type: ignore[arg-type]
    assert not trainer.received_sigterm

    with pytest.raises(SIGTERMException):
        trainer.fit_loop.epoch_loop._broadcast_sigterm_tensor()

    assert trainer.received_sigterm
    assert group.told == [0, 1]
    assert "Received SIGTERM: 15" in caplog.text


def test_a_rank_alone_acts_on_it_as_lightning_does(trainer: pl.Trainer, monkeypatch: pytest.MonkeyPatch) -> None:
    Group(monkeypatch, initialized=False)
    trainer._signal_connector._sigterm_notifier_fn(15, None)  # type: ignore[arg-type]
    assert trainer.received_sigterm


def test_a_second_call_of_the_same_trainer_changes_nothing(trainer: pl.Trainer) -> None:
    before = trainer.fit_loop.epoch_loop._broadcast_sigterm_tensor
    termination.agree_between_batches(trainer, "lightning.pytorch")
    assert trainer.fit_loop.epoch_loop._broadcast_sigterm_tensor is before
