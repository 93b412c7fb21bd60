"""How a job's files come home."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from queue import SimpleQueue

import pytest

from gpulayer.client import homecoming as homecomings
from gpulayer.client.choice import Choice
from gpulayer.client.homecoming import Deed, Homecoming, choose, decide
from gpulayer.errors import UnsafePath
from gpulayer.spec.files import Artifact, Blob

JOB = "job-000000000001"


class Store:
    """The artifacts of one job and the bytes behind them."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.links: set[str] = set()

    def artifacts(self, job_id: str) -> list[Artifact]:
        return [
            Artifact(
                job_id=job_id,
                attempt=1,
                path=path,
                blob=Blob(sha256=sha(data), size=len(data)),
                mode=0o644 | (stat.S_IFLNK if path in self.links else 0),
                mtime=1e9,
            )
            for path, data in self.files.items()
        ]

    def fetch_blob(self, sha256: str, to: Path) -> None:
        part = to.with_name("part")
        part.write_bytes(next(data for data in self.files.values() if sha(data) == sha256))
        part.replace(to)


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture
def homecoming(store: Store, root: Path) -> Homecoming:
    return Homecoming(store, lambda path: root / path)  # type: ignore[arg-type]


def no_base(path: str) -> None:
    return None


def test_a_new_file_is_written_once_with_its_time(homecoming: Homecoming, store: Store, root: Path) -> None:
    store.files["node0/logs/a.csv"] = b"1"
    assert homecoming.bring(JOB, no_base).written == [root / "logs/a.csv"]
    assert os.stat(root / "logs/a.csv").st_mtime == 1e9
    assert homecoming.bring(JOB, no_base).written == []


def test_files_that_take_long_to_come_are_counted_once(
    homecoming: Homecoming, store: Store, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.files |= {"node0/a.csv": b"1", "node0/b.csv": b"2"}
    told, fetch = SimpleQueue[int](), store.fetch_blob
    monkeypatch.setattr(homecomings, "SLOW_S", 0.01)
    counted: list[int] = []

    def slowly(sha256: str, to: Path) -> None:
        if not counted:
            counted.append(told.get(timeout=30))
        fetch(sha256, to)

    monkeypatch.setattr(store, "fetch_blob", slowly)
    homecoming.bring(JOB, no_base, lasts=told.put)
    assert counted == [2]
    assert told.empty()


def test_a_file_of_this_run_is_replaced_by_its_next_version(homecoming: Homecoming, store: Store, root: Path) -> None:
    store.files["node0/a.csv"] = b"1"
    homecoming.bring(JOB, no_base)
    store.files["node0/a.csv"] = b"1, 2"
    homecoming.bring(JOB, no_base)
    assert (root / "a.csv").read_bytes() == b"1, 2"


def test_a_file_that_was_there_before_is_kept_and_the_jobs_lies_beside(
    homecoming: Homecoming, store: Store, root: Path
) -> None:
    (root / "a.csv").write_bytes(b"mine")
    store.files["node0/a.csv"] = b"1"
    brought = homecoming.bring(JOB, no_base)
    assert (root / "a.csv").read_bytes() == b"mine"
    assert brought.beside == [(root / "a.csv", root / f"a.csv.{JOB}")]
    assert (root / f"a.csv.{JOB}").read_bytes() == b"1"


def test_a_file_that_was_changed_here_meanwhile_is_kept(homecoming: Homecoming, store: Store, root: Path) -> None:
    store.files["node0/a.csv"] = b"1"
    homecoming.bring(JOB, no_base)
    (root / "a.csv").write_bytes(b"edited")
    store.files["node0/a.csv"] = b"1, 2"
    homecoming.bring(JOB, no_base)
    assert (root / "a.csv").read_bytes() == b"edited"


def test_a_bundled_file_that_only_the_job_changed_is_changed_here(homecoming: Homecoming, store: Store, root: Path) -> None:
    (root / "results.csv").write_bytes(b"old")
    store.files["node0/results.csv"] = b"old, new"
    homecoming.bring(JOB, lambda path: sha(b"old"))
    assert (root / "results.csv").read_bytes() == b"old, new"


def test_node_0_wins_and_the_others_go_to_their_folders(homecoming: Homecoming, store: Store, root: Path) -> None:
    store.files |= {
        "node1/a.csv": b"other",
        "node0/a.csv": b"first",
        "node1/b.csv": b"only",
        "node1/same": b"s",
        "node0/same": b"s",
    }
    brought = homecoming.bring(JOB, no_base)
    assert {str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()} == {"a.csv", "node1/a.csv", "b.csv", "same"}
    assert (root / "a.csv").read_bytes() == b"first"
    assert brought.doubles == [root / "node1/a.csv"]


def test_a_checkpoint_that_the_job_deleted_goes_here_too_unless_it_was_changed(
    homecoming: Homecoming, store: Store, root: Path
) -> None:
    store.files |= {"node0/one.ckpt": b"1", "node0/two.ckpt": b"2"}
    homecoming.bring(JOB, no_base)
    (root / "two.ckpt").write_bytes(b"edited")
    store.files = {"node0/three.ckpt": b"3"}
    assert homecoming.bring(JOB, no_base).removed == [root / "one.ckpt"]
    assert sorted(os.listdir(root)) == ["three.ckpt", "two.ckpt"]


def test_a_deleted_folder_goes_with_the_parts_that_other_nodes_still_have(
    homecoming: Homecoming, store: Store, root: Path
) -> None:
    store.files |= {"node0/old/0": b"0", "node1/old/1": b"1", "node0/new/0": b"2", "node1/new/1": b"3"}
    homecoming.bring(JOB, no_base)
    store.files = {path: data for path, data in store.files.items() if path != "node0/old/0"}
    homecoming.bring(JOB, no_base)

    homecoming.remove(JOB, [str(root / "old"), str(root / "new")])  # the latter was written anew

    assert {str(each.relative_to(root)) for each in root.rglob("*")} == {"new", "new/0", "new/1"}


def test_what_the_script_wrote_outside_of_calls_stays_as_the_caller_wrote_it(
    homecoming: Homecoming, store: Store, root: Path
) -> None:
    (root / "notes").write_bytes(b"mine")
    store.files |= {"node0/notes": b"theirs", "node1/notes": b"another", "node0/only": b"x", "node0/bundled": b"2"}
    (root / "bundled").write_bytes(b"1")
    brought = homecoming.bring(JOB, lambda path: sha(b"1"), outside=lambda artifact: True)
    assert brought.written == [root / "only"]
    assert sorted(os.listdir(root)) == ["bundled", "notes", "only"]
    assert (root / "notes").read_bytes() == b"mine"
    assert (root / "bundled").read_bytes() == b"1"


def test_a_file_of_this_run_that_only_the_job_went_on_writing_outside_of_calls_comes(
    homecoming: Homecoming, store: Store, root: Path
) -> None:
    store.files["node0/rows.csv"] = b"1"
    homecoming.bring(JOB, no_base)
    store.files["node0/rows.csv"] = b"1, 2"
    homecoming.bring(JOB, no_base, outside=lambda artifact: True)
    assert (root / "rows.csv").read_bytes() == b"1, 2"


def test_what_a_later_job_deleted_of_this_runs_files_goes_here_too(homecoming: Homecoming, store: Store, root: Path) -> None:
    store.files |= {"node0/one.ckpt": b"1", "node0/two.ckpt": b"2", "node0/wide.ckpt/0": b"a", "node0/wide.ckpt/1": b"b"}
    homecoming.bring(JOB, no_base)
    (root / "two.ckpt").write_bytes(b"edited")
    (root / "mine.ckpt").write_bytes(b"mine")
    store.files = {"node0/new": b"n"}
    later = "job-000000000002"
    homecoming.bring(later, no_base)
    homecoming.remove(later, [str(root / name) for name in ("one.ckpt", "two.ckpt", "mine.ckpt", "wide.ckpt", "new")])
    assert sorted(os.listdir(root)) == ["mine.ckpt", "new", "two.ckpt"]


def test_an_empty_folder_is_made_unless_something_is_in_the_way(homecoming: Homecoming, root: Path) -> None:
    (root / "taken").touch()
    homecoming.make_folders([str(root / "out/plots"), str(root / "taken")])
    assert (root / "out/plots").is_dir()
    assert (root / "taken").is_file()


def test_a_link_comes_as_a_link_to_what_came_with_it(homecoming: Homecoming, store: Store, root: Path) -> None:
    store.files |= {"node0/ck/a.ckpt": b"1", "node0/ck/last.ckpt": b"1", "node0/ck/copy.ckpt": b"1"}
    store.links = {"node0/ck/last.ckpt"}
    homecoming.bring(JOB, no_base)
    assert os.readlink(root / "ck/last.ckpt") == "a.ckpt"
    assert not (root / "ck/copy.ckpt").is_symlink()

    del store.files["node0/ck/a.ckpt"], store.files["node0/ck/copy.ckpt"]
    store.files |= {"node0/ck/b.ckpt": b"2", "node0/ck/last.ckpt": b"2"}
    homecoming.bring(JOB, no_base)
    assert os.readlink(root / "ck/last.ckpt") == "b.ckpt"
    assert sorted(os.listdir(root / "ck")) == ["b.ckpt", "last.ckpt"]

    store.files.clear()
    homecoming.bring(JOB, no_base)
    assert os.listdir(root / "ck") == []


def test_a_link_whose_file_stays_with_the_job_is_a_file(homecoming: Homecoming, store: Store, root: Path) -> None:
    (root / "a").write_bytes(b"mine")
    store.files |= {"node0/a": b"1", "node0/last": b"1"}
    store.links = {"node0/last"}
    homecoming.bring(JOB, no_base)
    assert not (root / "last").is_symlink()
    assert (root / "last").read_bytes() == b"1"


@pytest.mark.parametrize("name", ["node0/../evil", "node0//evil", "../evil"])
def test_a_name_that_leaves_the_work_folder_brings_nothing_home(
    homecoming: Homecoming, store: Store, root: Path, name: str
) -> None:
    store.files |= {name: b"evil", "node0/good": b"1"}
    with pytest.raises(UnsafePath, match="evil"):
        homecoming.bring(JOB, no_base)
    assert os.listdir(root) == []


def test_the_tenth_node_comes_after_the_second() -> None:
    blob = Blob(sha256="0" * 64, size=0)
    found = choose(Artifact(job_id=JOB, attempt=1, path=f"node{n}/x", blob=blob) for n in (10, 2))
    assert found["x"].path == "node2/x"


@pytest.mark.parametrize(
    ("here", "wrote", "base", "deed"),
    [
        (None, None, None, Deed.WRITE),
        ("new", None, None, Deed.NOTHING),
        ("old", "old", None, Deed.WRITE),
        ("old", None, "old", Deed.WRITE),
        ("mine", "old", "old", Deed.BESIDE),
    ],
)
def test_the_deed_follows_from_the_hashes(here: str | None, wrote: str | None, base: str | None, deed: Deed) -> None:
    assert decide("new", here=here, wrote=wrote, base=lambda: base) is deed


def test_a_later_job_begins_with_what_is_here_of_the_earlier_ones(store: Store, root: Path) -> None:
    stored: list[bytes] = []

    def put_blob(source: Path) -> Blob:
        stored.append(source.read_bytes())
        return Blob(sha256=sha(stored[-1]), size=len(stored[-1]))

    store.put_blob = put_blob  # type: ignore[attr-defined]
    home = Homecoming(store, root.joinpath)  # type: ignore[arg-type]
    store.files = {"node0/logs/1.ckpt": b"one", "node0/logs/2.ckpt": b"two", "node0/notes.txt": b"job"}
    home.bring(JOB, lambda _: None)
    store.files = {"node0/logs/1.ckpt": b"one anew"}
    home.bring("job-000000000002", lambda _: None)
    (root / "logs" / "2.ckpt").unlink()
    (root / "notes.txt").write_bytes(b"caller")
    store.files = {"node0/big.ckpt": b"big"}
    urls = {"big.ckpt": f"gpulayer://{JOB}/node0/big.ckpt"}
    home.bring(
        "job-000000000003", no_base, choice=lambda _: Choice(urls=urls, blobs=(), kept=(), limit=None, place=root.joinpath)
    )

    found = home.present()

    assert {each.path: each.blob.sha256 for each in found} == {
        "big.ckpt": sha(b"big"),  # which stays with its job
        "logs/1.ckpt": sha(b"one anew"),
        "notes.txt": sha(b"caller"),
    }
    assert stored == [b"caller"]
    assert found[1].mtime == 1e9


def test_what_stays_is_known_by_its_url_until_it_comes(store: Store, tmp_path: Path) -> None:
    homecoming = Homecoming(store, lambda path: tmp_path / path)  # type: ignore[arg-type]
    urls = {name: f"gpulayer://{JOB}/node0/{name}" for name in ("a.ckpt", "b.ckpt")}
    store.files |= {"node0/a.ckpt": b"1", "node0/b.ckpt": b"2", "node0/rows.csv": b"3"}

    def none(changed: object) -> Choice:
        return Choice(
            urls={name: urls[name] for name in urls}, blobs=(), kept=(), limit=None, place=lambda path: tmp_path / path
        )

    first = homecoming.bring(JOB, no_base, choice=none)
    assert first.written == [tmp_path / "rows.csv"]
    assert [each.path for each in first.left] == ["node0/a.ckpt", "node0/b.ckpt"]
    assert homecoming.away == {str(tmp_path / name): url for name, url in urls.items()}

    del store.files["node0/a.ckpt"]  # the job deleted it: nothing here is its
    (tmp_path / "a.ckpt").write_text("another run's")
    again = homecoming.bring(JOB, no_base, choice=none)
    assert (again.written, again.removed) == ([], [])
    assert homecoming.away == {str(tmp_path / "b.ckpt"): urls["b.ckpt"]}

    last = homecoming.bring(JOB, no_base)
    assert last.written == [tmp_path / "b.ckpt"]
    assert homecoming.away == {}
    assert homecoming.named == {url: str(tmp_path / name) for name, url in urls.items()}
    store.files["node0/b.ckpt"] = b"22"  # of which an older one is here
    homecoming.bring(JOB, no_base, choice=none)
    assert homecoming.away == {str(tmp_path / "b.ckpt"): urls["b.ckpt"]}
