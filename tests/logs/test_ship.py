"""Batches of a spool's lines for the plane."""

from __future__ import annotations

from pathlib import Path

from gpulayer.logs.ship import Shipment
from gpulayer.logs.spool import SpoolReader, SpoolWriter
from gpulayer.spec.logs import LogLine


def ship(folder: Path, **options: int) -> Shipment:
    return Shipment(SpoolReader(folder), job_id="job-1", attempt=2, node_rank=1, **options)  # type: ignore[arg-type]


def everything(shipment: Shipment) -> list[tuple[LogLine, ...]]:
    batches = []
    while batch := shipment.batch():
        batches.append(batch)
        shipment.taken()
    return batches


def test_a_batch_is_given_again_until_it_was_taken(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path)
    writer.feed(3, "stdout", b"\x1egpulayer call=0\nfirst\n", 1.5)
    shipment = ship(tmp_path)
    line = LogLine(job_id="job-1", attempt=2, node_rank=1, rank=3, stream="stdout", seq=0, time=1.5, text="first", call=0)
    assert shipment.batch() == (line,)
    writer.feed(3, "stdout", b"second\n", 2.5)
    assert shipment.batch() == (line,)
    shipment.taken()
    assert [line.text for line in shipment.batch()] == ["second"]
    shipment.taken()
    assert shipment.batch() == ()
    writer.close()


def test_batches_keep_to_their_limits_and_lose_nothing(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path)
    writer.feed(0, "stdout", b"".join(b"%d\n" % n for n in range(1000)), 1.0)
    writer.feed(0, "stdout", b"x" * 5000 + b"\n" + b"y" * 5000 + b"\nz\n", 1.0)
    writer.close()
    batches = everything(ship(tmp_path, most_lines=300, most_bytes=4000))
    assert max(map(len, batches)) <= 300
    texts = [line.text for batch in batches for line in batch]
    assert texts == [*map(str, range(1000)), "x" * 5000, "y" * 5000, "z"]
    assert [line.seq for batch in batches for line in batch] == list(range(1003))


def test_what_the_plane_has_is_not_sent_again(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path)
    writer.feed(0, "stdout", b"a\nb\n", 1.0)
    writer.close()
    shipment = Shipment(SpoolReader(tmp_path), job_id="job-1", attempt=1, node_rank=0, marks={"0/stdout": 0})
    assert [line.text for line in shipment.batch()] == ["b"]
