"""Ranks that die, hang or leave while others wait: the job ends everywhere, soon, and says who it was."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpulayer.spec.events import Event
from gpulayer.spec.job import CommandJob, FunctionJob
from gpulayer.spec.records import JobRecord
from gpulayer.spec.states import JobState, Reason
from tests.end_to_end.gang import GPULAYER, Gang

PROGRAMS = Path(__file__).parent / "gang_programs"
SOON_S = 10.0
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def gang(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gang]:
    """Three workers for the tests of this file."""
    made = Gang(tmp_path_factory.mktemp("gang") / "home", PROGRAMS)
    try:
        yield made
    finally:
        made.close()


def events(gang: Gang, job: JobRecord) -> list[Event]:
    found: list[Event] = []

    def take(news: object) -> bool:
        found.extend(news.events)  # type: ignore[attr-defined]
        return bool(news.job.state.terminal)  # type: ignore[attr-defined]

    gang.follow(job.id, take)
    return found


def stopped_within(gang: Gang, job: JobRecord) -> float:
    """Return how long it was from the first word of trouble until every node had ended."""
    first = next(event.at for event in events(gang, job) if event.kind == "stopping")
    assert job.ended_at is not None
    return job.ended_at - first


def test_one_node_that_exits_ends_all_others_at_once_and_is_the_reason(gang: Gang) -> None:
    job = gang.run("ranks.py", "exits", "1", grace_s=600)

    assert (job.state, job.reason, job.sentence) == (JobState.FAILED, Reason.EXITED, "Rank 1 exited with code 1.")
    assert stopped_within(gang, job) < SOON_S
    gang.nothing_runs()
    assert all(worker.busy == () for worker in gang.plane.workers())


def test_a_rank_that_never_comes_to_where_all_meet_is_named(gang: Gang) -> None:
    job = gang.submit("ranks.py", "blocked", "1", nodes=2, rendezvous_timeout_s=15)
    waits = gang.follow(job.id, lambda news: news.job.why)
    on = waits.tasks[1].worker_name
    assert waits.why == (f"Rank 1 on {on} has not joined yet. Rank 0 waits in torch.distributed.init_process_group.",)

    job = gang.ended(job.id)

    assert (job.state, job.reason) == (JobState.FAILED, Reason.RENDEZVOUS_FAILED)
    assert job.sentence.startswith(f"Rank 1 on {on} has not joined after 15 s")
    gang.nothing_runs()


def test_ranks_that_stand_still_after_others_have_ended_well_are_shown_and_then_fail_the_job(gang: Gang) -> None:
    job = gang.submit("ranks.py", "early", "1", straggler_grace_s=6)
    waits = gang.follow(job.id, lambda news: news.job.why)
    names = [task.worker_name for task in waits.tasks]
    said = f"Rank 1 has ended. Rank 0 on {names[0]} and rank 2 on {names[2]} still run."
    shown, explained = (gpulayer(gang, "jobs", verb, job.id) for verb in ("show", "explain"))
    assert said in " ".join(shown.split())
    assert said in " ".join(explained.split())

    job = gang.ended(job.id)

    assert (job.state, job.reason) == (JobState.FAILED, Reason.STRAGGLER)
    assert job.cause is not None
    assert job.cause.rank == 0
    gang.nothing_runs()


def gpulayer(gang: Gang, *words: str) -> str:
    return subprocess.run([*GPULAYER, *words], env=gang.env, capture_output=True, text=True, timeout=60, check=True).stdout


def test_ranks_that_work_on_after_others_have_ended_may_take_their_time(gang: Gang) -> None:
    assert gang.run("ranks.py", "working", "1", nodes=2, straggler_grace_s=2).state is JobState.SUCCEEDED


@pytest.mark.parametrize("kind", ["gang", "function"])
def test_a_script_that_has_ended_is_not_kept_by_a_thread_that_hasnt(gang: Gang, kind: str) -> None:
    if kind == "gang":
        job = gang.run("ranks.py", "lingering", nodes=2, straggler_grace_s=2)
    else:
        spec = {"function": "functions:linger", "source": gang.source, "env": {"GPULAYER_STRAGGLER_GRACE_S": "2"}}
        job = gang.ended(gang.plane.submit(FunctionJob.model_validate(spec)).id)

    assert job.state is JobState.SUCCEEDED, job.sentence
    assert "thread 'uploader'" in " ".join(line.text for line in gang.plane.lines(job.id) if line.stream == "stderr")
    gang.nothing_runs()


STAGES = ("submitted", "placed", "gated", "running", "started")


def test_a_job_that_is_cancelled_at_any_moment_of_its_launch_leaves_nothing(gang: Gang) -> None:
    for turn in range(20):
        stage = STAGES[turn % len(STAGES)]
        job = gang.submit("ranks.py", "sleeps", nodes=2, grace_s=1)
        if stage == "started":
            gang.follow(job.id, lambda news: news.job.ranks.started)
        else:
            gang.follow(job.id, lambda news, stage=stage: any(event.kind == stage for event in news.events))
        gang.plane.cancel(job.id)
        job = gang.ended(job.id)
        assert (job.state, job.reason) == (JobState.CANCELLED, Reason.CANCELLED_BY_USER), (turn, job.sentence)
    gang.nothing_runs()
    assert all(worker.busy == () for worker in gang.plane.workers())


def test_who_waits_for_a_job_that_lost_its_worker_waits_for_its_next_attempt(gang: Gang) -> None:
    script = "echo attempt $GPULAYER_ATTEMPT; [ $GPULAYER_ATTEMPT = 2 ] || sleep 600"
    job = gang.plane.submit(CommandJob(command=("sh", "-c", script), max_attempts=2, on_unschedulable="queue"))
    waiting = subprocess.Popen([*GPULAYER, "jobs", "wait", job.id], env=gang.env, stdout=subprocess.DEVNULL)

    lost = gang.printed(job.id, "attempt 1").tasks[0].worker_name
    gang.kill(lost)

    assert waiting.wait(60) == 0
    job = gang.ended(job.id)
    assert (job.state, job.attempt) == (JobState.SUCCEEDED, 2)
    assert job.tasks[0].worker_name != lost
    gang.restart(lost)


def test_ranks_hear_of_their_places_as_from_torchrun(gang: Gang) -> None:
    job = gang.run("ranks.py", "placed", nodes=2, procs=2)

    said = [dict(word.split("=") for word in line.split()) for line in gang.text(job.id)]
    assert sorted((each["RANK"], each["LOCAL_RANK"], each["GROUP_RANK"]) for each in said) == [
        ("0", "0", "0"),
        ("1", "1", "0"),
        ("2", "0", "1"),
        ("3", "1", "1"),
    ]
    assert {(each["WORLD_SIZE"], each["LOCAL_WORLD_SIZE"]) for each in said} == {("4", "2")}
    assert {each["NODE_RANK"] for each in said} == {"None"}  # as under torchrun, which speaks of GROUP_RANK


def test_launch_after_launch_finds_its_port(gang: Gang) -> None:
    jobs = [gang.submit("ranks.py", "placed", nodes=2) for _ in range(20)]

    ends = [gang.ended(job.id) for job in jobs]

    assert [(job.state, job.sentence) for job in ends] == [(JobState.SUCCEEDED, "All 2 tasks succeeded.")] * 20


def test_a_command_that_ran_out_of_time_is_gone_on_with_from_what_it_left(gang: Gang) -> None:
    first = "echo 41 > count; echo left; sleep 600"
    job = gang.plane.submit(CommandJob(command=("sh", "-c", first), timeout_s=2, grace_s=1, on_unschedulable="queue"))
    job = gang.ended(job.id)
    assert (job.state, job.reason) == (JobState.TIMED_OUT, Reason.TIMEOUT)

    then = "echo $(($(cat $GPULAYER_INPUT_DIR/count) + 1))"
    inputs = [{"uri": f"gpulayer://{job.id}/node0/count", "path": "count"}]
    again = gang.plane.submit(CommandJob.model_validate({"command": ["sh", "-c", then], "inputs": inputs}))

    assert gang.ended(again.id).state is JobState.SUCCEEDED
    assert [line.text for line in gang.plane.lines(again.id)] == ["42"]
