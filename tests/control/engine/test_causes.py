"""Which of several things that went wrong is named as the cause."""

from __future__ import annotations

from typing import Any

import pytest

from gpulayer.control.engine.causes import first_cause
from gpulayer.spec.causes import Evidence
from tests.control.engine.given import error


def seen(at: float, kind: Any, node: int, rank: int | None = None, **fields: Any) -> Evidence:
    return Evidence(kind=kind, node_rank=node, rank=rank, at=at, **fields)


def raised(at: float, rank: int, qualname: str = "ValueError", *, communication: bool = False) -> Evidence:
    kind = "communication" if communication else "exception"
    return seen(at, kind, rank, rank, error=error(rank, qualname, communication=communication))


KILLED = seen(0.5, "signal", 1, 1, signal=9)
KILLED_AGENT = seen(0.1, "signal", 1, signal=9)
CLOSED = raised(0.0, 0, "RuntimeError", communication=True)

STORIES: list[tuple[str, list[Evidence], int | None]] = [
    ("nothing was seen", [], None),
    ("the first exception wins", [raised(1.0, 0), raised(1.1, 1)], 0),
    ("ties go to what was heard first", [raised(1.0, 1), raised(1.0, 0)], 0),
    ("a peer's death noticed first isn't the cause", [CLOSED, raised(1.0, 1)], 1),
    ("a signal outranks the connection it closed", [CLOSED, KILLED], 1),
    ("an exit without a record outranks the connection it closed", [CLOSED, seen(0.4, "exit", 1, 1, exit_code=3)], 1),
    ("what comes after the window isn't the cause", [CLOSED, raised(2.5, 1)], 0),
    ("who was killed is the cause, however late a busy machine tells of it", [CLOSED, seen(4.0, "signal", 1, signal=9)], 1),
    ("a killed agent does not follow from the connections of its ranks", [raised(0.0, 1, communication=True), KILLED_AGENT], 1),
    ("communication alone is still the cause", [CLOSED, raised(0.1, 1, communication=True)], 0),
    ("a rank's exception outranks its agent's exit", [seen(0.0, "exit", 0, exit_code=1), raised(0.3, 0)], 1),
    ("a rank's exception outranks its own exit", [seen(0.0, "exit", 0, 0, exit_code=1), raised(0.3, 0)], 1),
    ("an exit on another node is no shadow", [seen(0.0, "exit", 1, 1, exit_code=1), raised(0.3, 0)], 0),
    ("diverged calls yield to the exception behind them", [seen(0.0, "diverged", 1, 1), raised(0.2, 1)], 1),
    ("diverged calls outrank lost connections", [CLOSED, seen(0.2, "diverged", 1, 1)], 1),
    ("the stop's own SIGTERM isn't the cause", [CLOSED, raised(0.1, 2, "SIGTERMException"), KILLED], 2),
    ("a SIGTERM that came first is the cause", [seen(0.0, "signal", 0, 0, signal=15), raised(0.1, 1)], 0),
    ("an agent that exits on our SIGTERM isn't the cause", [CLOSED, seen(0.1, "exit", 1, exit_code=143)], 0),
]


@pytest.mark.parametrize(("evidence", "expected"), [story[1:] for story in STORIES], ids=[story[0] for story in STORIES])
def test_the_first_true_cause_is_named(evidence: list[Evidence], expected: int | None) -> None:
    cause = first_cause(evidence)

    assert cause == (None if expected is None else evidence[expected])
