"""Ranks for which the others wait: shown at once, and a failure when they show no sign of life."""

from __future__ import annotations

import pytest

from gpulayer.control.engine import explanation, transitions
from gpulayer.control.engine.orders import orders_for
from gpulayer.spec.records import JobRecord, Snapshot
from gpulayer.spec.reports import TaskStill
from gpulayer.spec.states import JobState, Reason
from tests.control.engine.given import (
    CALLS,
    arrives,
    command,
    ended,
    gang,
    hear,
    let_go,
    of,
    passed,
    placed,
    ready,
    running,
    started,
)


def still(record: JobRecord, node: int, *ranks: int) -> JobRecord:
    return hear(record, TaskStill(**of(record, node), ranks=ranks))


def patience(record: JobRecord) -> dict[str, float | None]:
    """How long each node is told to watch its ranks."""
    return {f"w{node}": orders_for(record, f"wkr-w{node}")[0].still_after_s for node in range(len(record.tasks))}


def test_who_has_not_joined_is_shown_and_watched_where_it_runs() -> None:
    record = passed(running(gang(2, 2, rendezvous_timeout_s=20)), "joined", 0, 1, 2)

    assert record.why == ("Rank 3 on w1 has not joined yet. Ranks 0, 1, 2 wait in torch.distributed.init_process_group.",)
    assert record.why[0] in explanation.explain(record, Snapshot(), 1.0).sentence
    assert patience(record) == {"w0": None, "w1": 20.0}


def test_a_rank_that_has_not_joined_and_is_still_fails_the_job_by_name() -> None:
    record = still(passed(running(gang(3, rendezvous_timeout_s=20)), "joined", 1), 0, 0)
    assert record.evidence == ()

    record = still(record, 2, 2)

    (found,) = record.evidence
    assert (found.kind, found.node_rank, found.rank) == ("rendezvous", 0, 0)
    assert found.sentence.startswith("Rank 0 on w0 and rank 2 on w2 have not joined after 20 s")
    assert record.stop is not None


def test_a_sign_of_life_is_taken_back() -> None:
    record = passed(running(gang(3)), "joined", 1)
    record = still(still(still(record, 0, 0), 0), 2, 2)
    assert record.evidence == ()
    record = passed(still(record, 0, 0), "joined", 0, 2)
    assert record.evidence != ()  # both were still at one moment


def test_all_that_stand_in_the_meeting_and_do_not_come_out_are_named() -> None:
    record = passed(running(gang(2)), "joined", 0, 1)
    assert record.why[0].startswith("Rank 0 on w0 and rank 1 on w1 are still in torch.distributed.init_process_group")

    record = still(still(record, 0, 0), 1, 1)

    assert "have not come out of torch.distributed.init_process_group" in record.evidence[0].sentence


def test_once_all_have_met_nobody_waits() -> None:
    record = passed(passed(running(gang(2)), "joined", 0, 1), "met", 0, 1)

    assert record.why == ()
    assert patience(record) == {"w0": None, "w1": None}
    assert still(record, 0, 0).evidence == ()


def test_a_job_of_which_some_ranks_have_ended_shows_which_run() -> None:
    record = passed(running(gang(2, 2, straggler_grace_s=5)), "ended", 1, 2)

    assert record.why == ("Ranks 1, 2 have ended. Rank 0 on w0 and rank 3 on w1 still run.",)
    assert patience(record) == {"w0": 5.0, "w1": 5.0}


def test_what_still_runs_fails_the_job_only_when_all_of_it_stands_still() -> None:
    record = passed(running(gang(3)), "ended", 0)
    record = still(record, 1, 1)
    assert record.stop is None

    record = still(record, 2, 2)

    (found,) = record.evidence
    assert (found.kind, found.rank) == ("straggler", 1)
    assert "no line, file or processor time for 60 s" in found.sentence


def test_a_node_that_has_succeeded_has_ended_with_all_its_ranks() -> None:
    record = running(gang(2, 2))
    record = hear(record, ended(record, 1))
    assert record.why == ("Ranks 2, 3 have ended. Ranks 0, 1 on w0 still run.",)


def test_the_end_of_one_that_worked_on_leaves_those_that_stand_still() -> None:
    record = still(passed(running(gang(3)), "ended", 0), 2, 2)
    assert record.stop is None
    assert passed(record, "ended", 1).evidence[0].rank == 2


def test_a_process_that_is_not_up_is_named_after_the_rendezvous_timeout() -> None:
    record = placed(gang(2, rendezvous_timeout_s=20))
    for report in (ready, started):
        for node in (0, 1):
            record = hear(record, report(record, node), 3.0)
    record = passed(record, "started", 0, at=3.0)
    assert transitions.next_deadline(record) == 23.0

    record = transitions.tick(record, 23.0).record

    assert record.evidence[0].sentence == "Rank 1 on w1 has not started 20 s after torchrun had on every node."


def test_in_a_script_with_calls_who_has_not_come_to_the_call_is_shown_and_may_take_its_time() -> None:
    record = let_go(running(gang(2, calls=CALLS)))
    record = hear(record, arrives(record, 0))

    assert record.why == ("Rank 1 on w1 has not come to call 0 (fit) yet.",)
    assert patience(record) == {"w0": None, "w1": None}


@pytest.mark.parametrize("milestone", ["joined", "ended"])
def test_a_command_has_no_ranks_that_wait(milestone: str) -> None:
    record = passed(running(command()), milestone, 0)  # type: ignore[arg-type]
    assert record.why == ()
    record = hear(record, ended(record))
    assert (record.state, record.reason) == (JobState.SUCCEEDED, Reason.DONE)


def test_of_many_ranks_the_first_are_named() -> None:
    record = passed(running(gang(3, 8)), "joined", *range(12))
    (sentence,) = record.why
    assert sentence.startswith("Ranks 12, 13, 14, 15 on w1, ranks 16, 17, 18, 19 on w2 and 4 more have not joined yet.")
    assert "Ranks 0, 1, 2, 3, 4, 5, 6, 7 and 4 more wait in" in sentence
