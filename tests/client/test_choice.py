"""Which files come home now."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpulayer.client import choice
from gpulayer.client.options import Fetch
from gpulayer.spec.files import Artifact, Blob, Checkpoint, FileEntry
from tests.client.test_checkpoints import made

COMPLETE = [made("c/0.ckpt", 1, score=1.0), made("c/1.ckpt", 2, score=3.0), made("c/2.ckpt", 3, score=2.0)]
SHARDED = Checkpoint(
    job_id="job-1",
    attempt=1,
    path="c/whole.ckpt/",
    serial=4,
    created_at=4,
    entries=tuple(FileEntry(path=f"c/whole.ckpt/__{rank}_0.distcp", blob=Blob(sha256=f"{rank}", size=1)) for rank in (0, 1)),
)


def place(path: str) -> Path:
    return Path("/caller") / path


def artifact(path: str, size: int = 1, sha256: str = "", node: int = 0) -> Artifact:
    known = {entry.path: entry.blob.sha256 for each in (*COMPLETE, SHARDED) for entry in each.entries}
    blob = Blob(sha256=sha256 or known.get(path, "other"), size=size)
    return Artifact(job_id="job-1", attempt=1, path=f"node{node}/{path}", blob=blob)


def taken(fetch: Fetch, named: list[str], *artifacts: Artifact) -> list[str]:
    made = choice.choose(fetch, [*COMPLETE, SHARDED], named, place)
    paths = [each.path.partition("/")[2] for each in artifacts]
    return [path for path, each in zip(paths, artifacts, strict=True) if made is None or made.takes(path, each)]


FILES = [artifact(path) for path in ("c/0.ckpt", "c/1.ckpt", "c/2.ckpt", "logs/metrics.csv")]


@pytest.mark.parametrize(
    ("fetch", "named", "come"),
    [
        ("all", [], ["c/0.ckpt", "c/1.ckpt", "c/2.ckpt", "logs/metrics.csv"]),
        ("best", ["/caller/c/0.ckpt", "/caller/c/2.ckpt"], ["c/0.ckpt", "c/2.ckpt", "logs/metrics.csv"]),
        ("best", [], ["c/2.ckpt", "logs/metrics.csv"]),
        ("last", ["/caller/c/1.ckpt"], ["c/1.ckpt", "logs/metrics.csv"]),
        ("last", [], ["logs/metrics.csv"]),  # the newest is the sharded one
        ("metrics", ["/caller/c/1.ckpt"], ["logs/metrics.csv"]),
    ],
)
def test_of_the_checkpoints_come_those_that_are_named_and_of_other_files_all(
    fetch: Fetch, named: list[str], come: list[str]
) -> None:
    assert taken(fetch, named, *FILES) == come


def test_a_large_file_does_not_come_with_the_metrics() -> None:
    large = artifact("logs/events", size=choice.SMALL + 1)
    assert taken("metrics", [], large) == []
    assert taken("best", [], large) == ["logs/events"]


def test_a_folder_comes_or_stays_as_one_and_a_link_is_a_checkpoint() -> None:
    parts = [artifact(f"c/whole.ckpt/__{rank}_0.distcp", node=rank) for rank in (0, 1)]
    link = artifact("c/last.ckpt", sha256=COMPLETE[2].entries[0].blob.sha256)
    assert taken("last", [], *parts, link) == ["c/whole.ckpt/__0_0.distcp", "c/whole.ckpt/__1_0.distcp"]
    assert taken("last", ["/caller/c/last.ckpt"], *parts, link) == ["c/last.ckpt"]


def test_what_stays_is_named_by_what_it_opens_by() -> None:
    made = choice.choose("metrics", [*COMPLETE, SHARDED], [], place)
    assert made is not None
    assert made.stays_as("c/0.ckpt", FILES[0]) == (place("c/0.ckpt"), "gpulayer://job-1/node0/c/0.ckpt")
    part = artifact("c/whole.ckpt/__1_0.distcp", node=1)
    assert made.stays_as("c/whole.ckpt/__1_0.distcp", part) == (place("c/whole.ckpt"), "gpulayer://job-1/c/whole.ckpt")
    assert made.stays_as("logs/metrics.csv", FILES[3]) is None
