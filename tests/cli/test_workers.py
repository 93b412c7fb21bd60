"""``gpulayer workers``, ``resources`` and ``doctor`` on a real home."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.cli.conftest import Cli
from tests.cli.played import PlayedWorker, submit

Told = Callable[..., Any]


def test_no_workers_is_said_with_where_they_come_from(cli: Cli) -> None:
    assert "local ones come with a job" in cli("workers", "ls").stderr


def test_a_worker_is_listed_with_what_it_is_at(worker: PlayedWorker, cli: Cli, told: Told) -> None:
    job = submit(worker)
    (seen,) = told("workers", "ls")
    assert (seen["id"], seen["name"], seen["state"], seen["busy"]) == (worker.info.id, "box-0", "online", [job.id])
    assert job.id in cli("workers", "ls").stdout


def test_a_worker_is_found_by_name_and_by_prefix(worker: PlayedWorker, told: Told) -> None:
    assert told("workers", "show", "box-0")["id"] == worker.info.id
    assert told("workers", "show", worker.info.id[:8])["capabilities"]["frameworks"] == {"torch": "2.13.0"}


def test_an_unknown_worker_is_wrong_use(worker: PlayedWorker, cli: Cli) -> None:
    assert "gpulayer workers ls" in cli("workers", "drain", "wkr-none", exits=2).stderr


def test_a_drained_worker_gets_no_further_task(worker: PlayedWorker, cli: Cli, told: Told) -> None:
    cli("workers", "drain", "box-0")
    assert told("workers", "ls")[0]["state"] == "draining"
    assert submit(worker, on_unschedulable="queue").state == "queued"


def test_rm_forgets_a_worker(worker: PlayedWorker, cli: Cli, told: Told) -> None:
    cli("workers", "rm", "box-0")
    assert worker.info.id not in [seen["id"] for seen in told("workers", "ls") if seen["state"] == "online"]


def test_detect_describes_this_machine(cli: Cli, told: Told) -> None:
    assert told("resources", "detect")["cpus"] >= 1
    assert "gloo" in cli("resources", "detect").stdout


def test_doctor_tries_what_jobs_need(told: Told) -> None:
    assert {check["check"]: check["ok"] for check in told("doctor")}["home"]
