"""``gpulayer jobs`` on a real home."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpulayer.errors import Unschedulable
from gpulayer.spec.job import DistributedJob
from tests.cli.conftest import Cli
from tests.cli.played import PlayedWorker, submit

Told = Callable[..., Any]


def test_a_fresh_home_has_no_jobs(cli: Cli, told: Told) -> None:
    done = cli("jobs", "ls")
    assert done.stdout == ""
    assert done.stderr == "No jobs yet.\n"
    assert told("jobs", "ls") == []


def test_the_newest_job_is_listed_first(worker: PlayedWorker, cli: Cli, told: Told) -> None:
    first, second = submit(worker, ["true"], name="one"), submit(worker, ["sleep", "9"], name="two")
    assert [job["id"] for job in told("jobs", "ls")] == [second.id, first.id]
    assert cli("jobs", "ls", "-q").stdout.split() == [second.id, first.id]
    assert [job["id"] for job in told("jobs", "ls", "-n", "1")] == [second.id]
    assert "sleep 9" in cli("jobs", "ls").stdout.splitlines()[1]


def test_a_job_is_found_by_any_unique_prefix(worker: PlayedWorker, told: Told) -> None:
    job = submit(worker)
    assert told("jobs", "show", job.id[:7])["id"] == job.id


def test_an_unknown_job_is_wrong_use_with_the_next_step(cli: Cli) -> None:
    said = cli("jobs", "show", "job-nothing", exits=2).stderr
    assert "job-nothing" in said
    assert "gpulayer jobs ls" in said
    assert "Traceback" not in said


def test_a_prefix_of_several_jobs_is_refused(worker: PlayedWorker, cli: Cli) -> None:
    submit(worker), submit(worker)
    assert "job-" in cli("jobs", "show", "job-", exits=2).stderr


def test_show_tells_state_and_tasks(worker: PlayedWorker, cli: Cli, told: Told) -> None:
    job = submit(worker)
    worker.begin(job)
    worker.end(job, exit_code=3)
    facts = told("jobs", "show", job.id)
    assert (facts["state"], facts["tasks"][0]["exit_code"]) == ("failed", 3)
    assert "node0 on box-0: failed, exit code 3" in cli("jobs", "show", job.id).stdout


def test_logs_are_tagged_with_their_rank(worker: PlayedWorker, cli: Cli) -> None:
    spec = DistributedJob(
        entrypoint="m:f", num_workers=1, procs_per_worker=4, placement={"target": "local"}, on_unschedulable="queue"
    )
    job = worker.plane.submit(spec)
    worker.print_lines(job, "plain")
    worker.print_lines(job, "from three", rank=3)
    worker.print_lines(job, "from one", rank=1)
    assert cli("jobs", "logs", job.id).stdout == "plain\n[rank3] from three\n[rank1] from one\n"
    assert cli("jobs", "logs", job.id, "--rank", "1").stdout == "[rank1] from one\n"
    assert f"{job.id} has ranks 0 to 3, not 4" in cli("jobs", "logs", job.id, "--rank", "4", exits=2).stderr
    assert cli("jobs", "logs", job.id, "--tail", "2").stdout == "[rank3] from three\n[rank1] from one\n"
    assert [json.loads(line)["rank"] for line in cli("jobs", "logs", job.id, "--json").stdout.splitlines()] == [None, 3, 1]


@pytest.mark.parametrize("tail", [[], ["--tail", "1"]])
def test_follow_goes_on_to_the_last_line(worker: PlayedWorker, cli: Cli, tail: list[str]) -> None:
    job = submit(worker)
    worker.begin(job)
    worker.print_lines(job, "first", "second")

    def play() -> None:
        worker.print_lines(job, "third")
        worker.end(job)

    player = threading.Timer(0.2, play)
    player.start()
    try:
        printed = cli("jobs", "logs", "-f", job.id, *tail).stdout.split()
    finally:
        player.join()
    assert printed == (["second", "third"] if tail else ["first", "second", "third"])


def test_cancel_returns_at_once_and_the_job_ends(worker: PlayedWorker, told: Told) -> None:
    job = submit(worker)
    worker.begin(job)
    assert told("jobs", "cancel", job.id)["phase"] == "stopping"
    assert worker.plane.orders(worker.info.id).orders[0].stop is not None


def test_wait_says_by_its_exit_code_how_the_job_ended(worker: PlayedWorker, told: Told) -> None:
    good, bad = submit(worker), submit(worker)
    worker.begin(good)
    player = threading.Timer(0.2, lambda: worker.end(good))
    player.start()
    assert told("jobs", "wait", good.id)["state"] == "succeeded"
    player.join()
    worker.begin(bad)
    worker.end(bad, exit_code=1)
    assert told("jobs", "wait", bad.id, exits=1)["state"] == "failed"


def test_wait_gives_up_when_the_time_is_up(worker: PlayedWorker, told: Told) -> None:
    job = submit(worker)
    worker.begin(job)
    assert told("jobs", "wait", job.id, "--timeout", "0.1", exits=1)["state"] == "running"


def test_explain_gives_each_workers_reasons(worker: PlayedWorker, cli: Cli, told: Told) -> None:
    wanted = {"accelerator": "cuda", "gpu_count": 1}
    job = submit(worker, resources=wanted, on_unschedulable="queue")
    verdict = told("jobs", "explain", job.id)["verdicts"][0]
    assert verdict["worker_id"] == worker.info.id
    assert verdict["compatible"] is False
    assert verdict["sentences"][0] in cli("jobs", "explain", job.id).stdout


def test_a_job_that_failed_to_be_placed_is_in_the_list(worker: PlayedWorker, told: Told) -> None:
    with pytest.raises(Unschedulable):
        submit(worker, resources={"accelerator": "cuda", "gpu_count": 1})
    (job,) = told("jobs", "ls")
    assert (job["state"], job["reason"]) == ("failed", "unschedulable")


def test_rm_forgets_an_ended_job_and_refuses_a_running_one(worker: PlayedWorker, cli: Cli, told: Told) -> None:
    ended, running = submit(worker), submit(worker)
    worker.begin(ended)
    worker.end(ended)
    worker.begin(running)
    assert cli("jobs", "rm", ended.id).stdout == f"{ended.id}\n"
    assert "cancel" in cli("jobs", "rm", running.id, exits=2).stderr
    assert [job["id"] for job in told("jobs", "ls")] == [running.id]


def test_a_home_that_is_a_file_is_refused_in_a_sentence(home: Path, cli: Cli) -> None:
    home.write_text("in the way")
    said = cli("jobs", "ls", exits=1).stderr
    assert "GPULAYER_HOME" in said
    assert "Traceback" not in said


def test_a_rank_that_a_job_does_not_have_is_wrong_use(worker: PlayedWorker, cli: Cli) -> None:
    job = submit(worker)
    assert f"{job.id} has only rank 0, not 9" in cli("jobs", "logs", job.id, "--rank", "9", exits=2).stderr
    assert cli("jobs", "logs", job.id, "--rank", "0").stdout == ""
