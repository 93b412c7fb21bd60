"""Ranks that wait inside a call for peers who have finished it: who is named, and when."""

from __future__ import annotations

import os

import pytest

from gpulayer.spec.calls import CallView, Outcome
from gpulayer.spec.causes import Evidence
from gpulayer.spec.job import Calls, DistributedJob
from gpulayer.spec.records import Order
from gpulayer.worker.stragglers import Stragglers, processor_time

PIDS = {0: 100, 1: 101}


def order(*finished: int) -> Order:
    """A job of two ranks in call 0, which some have finished."""
    outcomes = tuple(Outcome(call=0, rank=rank, status="ok", at=0.0) for rank in finished)
    spec = DistributedJob(entrypoint="a.py", procs_per_worker=2, calls=Calls(root="/r", cwd="/r", straggler_grace_s=60))
    view = CallView(call=0, begun=True, outcomes=outcomes)
    return Order(job_id="job-1", attempt=1, node_rank=0, spec=spec, procs_per_worker=2, num_workers=1, calls=(view,))


def looks(used: list[float], *, every: float = 30.0, finished: tuple[int, ...] = (1,)) -> list[Evidence | None]:
    """Look repeatedly, with rank 0 having used so much processor time at each look."""
    left = iter(used)
    watch = Stragglers(0, lambda pid: next(left))
    return [watch.look(order(*finished), PIDS, turn * every) for turn in range(len(used))]


def test_a_rank_that_stands_still_after_its_peer_finished_is_named() -> None:
    early, later, found = looks([5.0, 5.1, 5.2])

    assert (early, later) == (None, None)
    assert found is not None
    assert (found.kind, found.rank) == ("straggler", 0)
    assert "after rank 1 had finished it" in found.sentence


def test_a_rank_that_works_on_alone_may_take_its_time() -> None:
    assert looks([5.0, 8.0, 11.0, 14.0, 17.0, 20.0]) == [None] * 6


def test_the_grace_begins_anew_when_it_worked() -> None:
    assert [found is not None for found in looks([5.0, 8.0, 8.0, 8.0])] == [False, False, False, True]


@pytest.mark.parametrize("finished", [(), (0, 1)])
def test_nobody_is_behind_while_all_compute_or_all_have_finished(finished: tuple[int, ...]) -> None:
    watch = Stragglers(0, lambda pid: 0.0)

    assert watch.due(order(*finished)) is None
    assert [watch.look(order(*finished), PIDS, now) for now in (0.0, 100.0, 1000.0)] == [None] * 3


def test_processor_time_is_read_from_the_kernel() -> None:
    before = processor_time(os.getpid())
    spent = os.times().user
    while os.times().user - spent < 0.05:
        pass
    assert processor_time(os.getpid()) > before
    assert processor_time(2**22 + 1) == 0.0
