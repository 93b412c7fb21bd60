"""Signs of life of ranks for which others wait: processor time, and what they read and write."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from subprocess import PIPE, Popen

from gpulayer.worker.stillness import Signs, Stillness, signs_of

PIDS = {0: 100, 1: 101}


def looks(signs: Sequence[Signs], *, every: float = 30.0) -> list[tuple[int, ...] | None]:
    """Look repeatedly at a rank that has done so much at each look, under a patience of 60 s."""
    left = iter(signs)
    watch = Stillness(lambda pid: next(left))
    return [watch.look(60.0, {1: 101}, turn * every) for turn in range(len(signs))]


def test_a_rank_that_does_nothing_is_told_once() -> None:
    assert looks([Signs(5.0, 7)] * 5) == [None, None, (1,), None, None]


def test_processor_time_is_a_sign_of_life() -> None:
    assert looks([Signs(5.0, 7), Signs(8.0, 7), Signs(11.0, 7), Signs(14.0, 7)]) == [None] * 4


def test_a_line_or_a_file_is_a_sign_of_life_and_taken_back_what_was_told() -> None:
    told = looks([Signs(5.0, 7), Signs(5.0, 7), Signs(5.0, 7), Signs(5.0, 9), Signs(5.0, 9), Signs(5.0, 9)])
    assert told == [None, None, (1,), (), None, (1,)]


def test_nobody_is_watched_while_nobody_waits() -> None:
    watch = Stillness(lambda pid: Signs(0.0, 0))
    assert (watch.due(None), watch.look(None, PIDS, 0.0)) == (None, None)
    assert [watch.look(1.0, PIDS, now) for now in (0.0, 1.0)] == [None, (0, 1)]
    assert watch.look(None, PIDS, 2.0) == ()
    assert watch.look(1.0, PIDS, 3.0) is None  # it begins anew


def test_signs_are_read_from_the_kernel(tmp_path: Path) -> None:
    code = "import sys; sys.stdin.readline(); print('x' * 5000, flush=True); sys.stdin.readline()"
    with Popen([sys.executable, "-c", code], stdin=PIPE, stdout=PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        before = signs_of(os.getpid())
        child.stdin.write("\n")
        child.stdin.flush()
        assert len(child.stdout.readline()) == 5001
        assert signs_of(os.getpid()).moved - before.moved >= 5001
        child.stdin.write("\n")
    assert signs_of(2**22 + 1) == Signs(0.0, 0)
