"""What ranks are told of their job's end."""

from __future__ import annotations

import pytest

from gpulayer.spec.calls import CallView, Fingerprint, Go
from gpulayer.spec.job import CommandJob
from gpulayer.spec.records import Order, Stop
from gpulayer.spec.states import Reason
from gpulayer.worker import calls


def order(reason: Reason | None) -> Order:
    stop = None if reason is None else Stop(reason=reason)
    return Order(
        job_id="job-1", attempt=1, node_rank=0, spec=CommandJob(command=("x",)), procs_per_worker=1, num_workers=1, stop=stop
    )


def go(call: int) -> Go:
    return Go(fingerprint=Fingerprint(call=call, function="fit", trainer=0, module="m:M", shapes=""))


def test_a_farewell_on_the_heels_of_a_go_is_told_after_the_beginning() -> None:
    told = calls.Told()
    early = order(None).model_copy(update={"caller_ended": True, "calls": (CallView(call=0, go=go(0)),)})
    begun = early.model_copy(update={"calls": (CallView(call=0, go=go(0), begun=True),)})

    for given, said in ((early, [calls.SayGo(go(0))]), (early, []), (begun, [calls.SayBegin(0, None), calls.SayEnd()])):
        due = calls.due(given, told)
        assert due == said
        for each in due:
            calls.note(told, each)


def test_a_rank_hears_once_that_its_user_wants_the_end() -> None:
    told = calls.Told()
    said = calls.due(order(Reason.CANCELLED_BY_USER), told)
    assert said == [calls.SayInterrupted()]
    calls.note(told, said[0])
    assert calls.due(order(Reason.CANCELLED_BY_USER), told) == []


@pytest.mark.parametrize("reason", [None, Reason.TIMEOUT, Reason.PEER_FAILED])
def test_other_ends_are_no_interrupt(reason: Reason | None) -> None:
    assert calls.due(order(reason), calls.Told()) == []
