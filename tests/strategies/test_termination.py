"""How the ranks of a job agree to end; with real processes in tests/end_to_end/test_resume.py."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
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

    with pytest.raises(SIGTERMException) as agreed:
        trainer.fit_loop.epoch_loop._broadcast_sigterm_tensor()
    wish = Asked(by_user=True).wish
    wish.asked = True
    assert isinstance(wish.meant_by(agreed.value), KeyboardInterrupt)
    assert not wish.alone

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


class Asked:
    """A wish whose process can be asked to end."""

    def __init__(self, by_user: bool) -> None:
        self.wish = termination.Wish("lightning.pytorch", lambda _: by_user)

    def sleep(self) -> float:
        """Ask once and sleep; how long it took until that was broken off."""
        began = time.monotonic()
        try:
            with self.wish.breakable():
                signal.raise_signal(signal.SIGTERM)
                time.sleep(60)
        finally:
            self.took = time.monotonic() - began
        return self.took


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(termination, "PATIENCE_S", 0.2)
    before = signal.getsignal(signal.SIGTERM)
    yield
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(("by_user", "expected"), [(True, KeyboardInterrupt), (False, SIGTERMException)])
def test_a_rank_that_sleeps_is_broken_off_after_a_while(by_user: bool, expected: type[BaseException]) -> None:
    asked = Asked(by_user)
    with asked.wish.heard(), pytest.raises(expected):
        asked.sleep()
    assert asked.took < 30
    assert asked.wish.alone


@pytest.mark.usefixtures("impatient")
def test_what_ended_by_itself_is_not_broken_off_afterwards() -> None:
    asked = Asked(by_user=True)
    with asked.wish.heard():
        with asked.wish.breakable():
            signal.raise_signal(signal.SIGTERM)
        timer = asked.wish._timer
        assert timer is not None
        timer.join(10)
        asked.wish._remind()
    assert asked.wish.asked
    assert not asked.wish.alone


@pytest.mark.usefixtures("impatient")
def test_a_users_own_handler_hears_it_as_well() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    try:
        with Asked(by_user=True).wish.heard():
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == [signal.SIGTERM]


@pytest.mark.usefixtures("impatient")
def test_a_forked_child_dies_of_it() -> None:
    with Asked(by_user=True).wish.heard():
        child = os.fork()
        if child == 0:
            signal.raise_signal(signal.SIGTERM)
            os._exit(0)
        _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGTERM


def test_another_thread_hears_nothing() -> None:
    before, seen = signal.getsignal(signal.SIGTERM), []

    def call() -> None:
        with Asked(by_user=True).wish.heard():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert seen == [before]


def test_the_users_interrupt_is_what_hooks_see() -> None:
    gone, own = RuntimeError("Connection closed by peer"), ValueError("mine")
    wish = Asked(by_user=True).wish
    assert wish.meant_by(gone) is gone
    wish.asked = True
    assert wish.meant_by(own) is own
    assert not wish.alone
    meant = wish.meant_by(gone)
    assert isinstance(meant, KeyboardInterrupt)
    assert meant.__cause__ is gone
    assert wish.alone


def test_a_rank_that_left_its_loop_by_itself_waits_for_nobody() -> None:
    wish = Asked(by_user=True).wish
    wish.asked = True
    assert isinstance(wish.meant_by(SIGTERMException()), KeyboardInterrupt)
    assert wish.alone


def test_another_wish_stays_what_lightning_makes_of_it() -> None:
    wish, error = Asked(by_user=False).wish, SIGTERMException()
    wish.asked = True
    assert wish.meant_by(error) is error
