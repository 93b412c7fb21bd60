"""Chores that fail and go on: what is said of them."""

from __future__ import annotations

import logging
import threading

import pytest

from gpulayer.control.server import beats
from gpulayer.control.server.beats import Beats
from gpulayer.errors import PlaneBusy


class Chore:
    """Fails in the given ways, one a run, then goes well."""

    def __init__(self, *troubles: Exception) -> None:
        self._troubles = list(troubles)
        self.went_well = threading.Event()

    def __call__(self) -> None:
        if self._troubles:
            raise self._troubles.pop(0)
        self.went_well.set()


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beats, "BEAT_S", 0.001)


def said(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str, bool]]:
    return [(each.levelname, each.getMessage(), each.exc_info is not None) for each in caplog.records]


def run(chore: Chore) -> Beats:
    made = Beats({"queue": (0.0, chore)})
    made.start()
    assert chore.went_well.wait(10)
    made.close()
    return made


def test_a_database_that_is_away_is_told_once_without_a_traceback_and_so_is_its_return(
    caplog: pytest.LogCaptureFixture,
) -> None:
    away = PlaneBusy("The plane's database did not answer.")
    with caplog.at_level(logging.INFO, "gpulayer.server"):
        made = run(Chore(away, away, away))
    assert said(caplog) == [("WARNING", "chore failed", False), ("INFO", "chore goes well again", False)]
    assert caplog.records[0].facts == {"chore": "queue", "why": away.sentence}  # type: ignore[attr-defined]
    assert made.well


def test_a_fault_of_ours_keeps_its_traceback_and_another_reason_is_another_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "gpulayer.server"):
        run(Chore(PlaneBusy("Away."), ZeroDivisionError(), ZeroDivisionError(), PlaneBusy("Away.")))
    assert said(caplog) == [
        ("WARNING", "chore failed", False),
        ("ERROR", "chore failed", True),
        ("WARNING", "chore failed", False),
    ]
