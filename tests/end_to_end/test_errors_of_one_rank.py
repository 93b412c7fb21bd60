"""An exception on one rank while the others wait for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.waiting import wait_for

from .processes import SCRIPT_S, of_home
from .test_checkpoints_shipped import folder as folder
from .test_checkpoints_shipped import run

pytestmark = pytest.mark.timeout(3 * SCRIPT_S)


def test_it_is_raised_at_the_caller_at_once_wherever_it_happened_and_the_next_fit_works(folder: Path, home: Path) -> None:
    assert run(folder, "raising") == {
        "told": [["configure_optimizers", 0, True, True], ["validation_step", 0, True, True]],
        "steps": 4,
    }
    wait_for(lambda: not of_home(home), within=10, what="the end of the jobs' processes")
