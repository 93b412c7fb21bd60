"""Secrets at rest, and which of them a plane takes."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from gpulayer.control.server.app import EmbeddedPlane, open_home
from gpulayer.control.server.sealing import Sealer
from gpulayer.errors import InvalidSecret, SecretError, SecretNotFound
from tests.control.given import a_command

VALUE = "hunter2-hunter2"


def test_what_was_sealed_opens_under_its_name_only(tmp_path: Path) -> None:
    sealer = Sealer(tmp_path / "secrets.key")
    sealed = sealer.seal("WANDB_API_KEY", VALUE)

    assert VALUE.encode() not in sealed
    assert Sealer(tmp_path / "secrets.key").open("WANDB_API_KEY", sealed) == VALUE
    with pytest.raises(SecretError):
        sealer.open("OTHER", sealed)


def test_the_same_value_is_sealed_differently_each_time(tmp_path: Path) -> None:
    sealer = Sealer(tmp_path / "secrets.key")
    assert sealer.seal("A", VALUE) != sealer.seal("A", VALUE)


@pytest.mark.parametrize("at", [0, 12, -1])
def test_damage_is_noticed(tmp_path: Path, at: int) -> None:
    sealer = Sealer(tmp_path / "secrets.key")
    sealed = bytearray(sealer.seal("A", VALUE))
    sealed[at] ^= 1
    for damaged in (bytes(sealed), bytes(sealed[:10]), b""):
        with pytest.raises(SecretError):
            sealer.open("A", damaged)


def test_the_key_is_its_owners_alone(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        Sealer(tmp_path / "secrets.key").seal("A", VALUE)
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "secrets.key").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir() if "key" in path.name] == ["secrets.key"]


def test_processes_that_make_the_key_at_once_agree(tmp_path: Path) -> None:
    start = threading.Barrier(8)
    sealed: list[bytes] = []

    def seal() -> None:
        sealer = Sealer(tmp_path / "secrets.key")
        start.wait(10)
        sealed.append(sealer.seal("A", VALUE))

    threads = [threading.Thread(target=seal) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)

    assert [Sealer(tmp_path / "secrets.key").open("A", each) for each in sealed] == [VALUE] * 8


@pytest.mark.parametrize("text", [b"", b"short", b"\xff" * 44, b"YWJj"])
def test_a_file_that_holds_no_key_is_not_replaced(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "secrets.key").write_bytes(text)
    with pytest.raises(SecretError, match="no key"):
        Sealer(tmp_path / "secrets.key").seal("A", VALUE)
    assert (tmp_path / "secrets.key").read_bytes() == text


# --- through a plane -------------------------------------------------------------------------------------------------


def test_secrets_are_set_named_changed_and_removed(plane: EmbeddedPlane) -> None:
    plane.set_secret("B", VALUE)
    plane.set_secret("A", VALUE)
    plane.set_secret("B", "another-value")
    assert plane.secret_names() == ["A", "B"]

    job = plane.submit(a_command(secrets=("B",), on_unschedulable="queue"))
    assert plane.secrets_of(job.id) == {"B": "another-value"}

    plane.remove_secret("A")
    assert plane.secret_names() == ["B"]
    with pytest.raises(SecretNotFound):
        plane.remove_secret("A")


def test_a_job_that_names_a_missing_secret_is_refused_and_not_kept(plane: EmbeddedPlane) -> None:
    plane.set_secret("THERE", VALUE)
    with pytest.raises(SecretNotFound, match="NOT_THERE"):
        plane.submit(a_command(secrets=("THERE", "NOT_THERE"), on_unschedulable="queue"))
    assert plane.jobs() == []


def test_a_repeated_submission_is_the_same_job_though_its_secret_is_gone(plane: EmbeddedPlane) -> None:
    plane.set_secret("A", VALUE)
    job = a_command(secrets=("A",), on_unschedulable="queue")
    first = plane.submit(job, key="once")
    plane.remove_secret("A")

    assert plane.submit(job, key="once").id == first.id
    with pytest.raises(SecretNotFound):
        plane.secrets_of(first.id)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("A", "7 chars"), ("A", ""), ("A", " " * 9), ("A", "1234567 "), ("A", "with\0 a nul"), ("A", "half \udcff a char")),
        *(("A", "x" * 40_000), ("", VALUE), ("1A", VALUE), ("A-B", VALUE), ("A=B", VALUE), ("A\n", VALUE), ("x" * 201, VALUE)),
        ("GPULAYER_TOKEN", VALUE),
    ],
)
def test_what_can_be_no_secret_is_refused_without_showing_it(plane: EmbeddedPlane, name: str, value: str) -> None:
    with pytest.raises(InvalidSecret) as refused:
        plane.set_secret(name, value)
    assert not value.strip() or value not in str(refused.value.to_wire())
    assert plane.secret_names() == []


def test_the_home_keeps_the_value_nowhere_in_the_clear(plane: EmbeddedPlane, home: Path) -> None:
    plane.set_secret("A", VALUE)
    plane.submit(a_command(secrets=("A",), on_unschedulable="queue"))
    other = open_home(home, "cli")
    try:
        assert other.secret_names() == ["A"]
    finally:
        other.close()

    files = [path for path in home.rglob("*") if path.is_file()]
    assert [path.name for path in files if VALUE.encode() in path.read_bytes()] == []
    assert home / "secrets.key" in files
