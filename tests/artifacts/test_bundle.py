"""What a bundle holds, and that the same tree makes the same bytes."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

from gpulayer.artifacts import bundle, listing
from gpulayer.artifacts.bundle import Limits
from gpulayer.errors import BundleError, BundleTooLarge, EntrypointMissing, LinkLeavesRoot
from tests.artifacts.given import a_folder, a_repository, git


def sent(root: Path, **options: object) -> list[str]:
    return [row.path for row in bundle.explain(root, **options) if row.sent]  # type: ignore[arg-type]


def left(root: Path) -> dict[str, str]:
    return {row.path: row.rule for row in bundle.explain(root) if not row.sent}


def packed(root: Path, name: str = "bundle.zip", **options: object) -> bundle.Packed:
    return bundle.pack(root, root.parent / name, **options)  # type: ignore[arg-type]


# --- the root ---


def test_the_root_is_the_nearest_project_above_the_script(tmp_path: Path) -> None:
    a_folder(tmp_path, {"repo/.git/": "", "repo/pkg/pyproject.toml": "", "repo/pkg/src/train.py": "", "repo/x/y/t.py": ""})
    assert bundle.find_root(tmp_path / "repo/pkg/src/train.py") == tmp_path / "repo/pkg"
    assert bundle.find_root(tmp_path / "repo/x/y/t.py") == tmp_path / "repo"


def test_without_a_project_the_root_is_the_scripts_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_folder(tmp_path, {"alone/train.py": ""})
    assert bundle.find_root(tmp_path / "alone/train.py") == tmp_path / "alone"
    monkeypatch.chdir(tmp_path / "alone")
    assert bundle.find_root(Path("train.py")) == tmp_path / "alone"


def test_a_named_source_folder_wins_and_must_exist(tmp_path: Path) -> None:
    a_folder(tmp_path, {"repo/.git/": "", "repo/a/train.py": ""})
    assert bundle.find_root(tmp_path / "repo/a/train.py", tmp_path / "repo/a") == tmp_path / "repo/a"
    with pytest.raises(EntrypointMissing, match="nowhere"):
        bundle.find_root(tmp_path / "repo/a/train.py", tmp_path / "nowhere")


def test_a_home_folder_kept_in_git_is_not_taken_for_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_folder(tmp_path, {"me/.git/": "", "me/scratch/train.py": "", "me/direct.py": ""})
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    assert bundle.find_root(tmp_path / "me/scratch/train.py") == tmp_path / "me/scratch"
    assert bundle.find_root(tmp_path / "me/direct.py") == tmp_path / "me"


# --- the rules ---

TREE = {
    "train.py": "",
    "notes.txt": "",
    "data/train.csv": "",
    "data/small.csv": "",
    "data/deep/x.csv": "",
    "pkg/a.py": "",
    "pkg/data/y.csv": "",
}
PATTERNS = [
    ("", TREE.keys()),
    ("*\n", []),
    ("*\n!*.py\n", ["pkg/a.py", "train.py"]),
    ("*.csv\n", ["notes.txt", "pkg/a.py", "train.py"]),
    ("data/\n", ["notes.txt", "pkg/a.py", "train.py"]),
    ("/data/\n", ["notes.txt", "pkg/a.py", "pkg/data/y.csv", "train.py"]),
    ("data\n!data/small.csv\n", ["data/small.csv", "notes.txt", "pkg/a.py", "train.py"]),
    ("data/*.csv\n", ["data/deep/x.csv", "notes.txt", "pkg/a.py", "pkg/data/y.csv", "train.py"]),
    ("**/deep\n", [name for name in TREE if "deep" not in name]),
    ("data/**/*.csv\n", ["notes.txt", "pkg/a.py", "pkg/data/y.csv", "train.py"]),
    ("n?tes.[tx]xt\n", [name for name in TREE if name != "notes.txt"]),
    ("# a comment\n\n   \n", TREE.keys()),
    ("*.csv\n!small.csv\n", ["data/small.csv", "notes.txt", "pkg/a.py", "train.py"]),
    ("!small.csv\n*.csv\n", ["notes.txt", "pkg/a.py", "train.py"]),
    ("pkg/\n!pkg/\n", TREE.keys()),
]


@pytest.mark.parametrize("in_git", [False, True])
@pytest.mark.parametrize(("patterns", "expected"), PATTERNS)
def test_patterns_are_gits_and_the_last_that_matches_decides(
    tmp_path: Path, patterns: str, expected: list[str], in_git: bool
) -> None:
    make = a_repository if in_git else a_folder
    root = make(tmp_path / "src", {**TREE, ".gpulayerignore": patterns + "!/.gpulayerignore\n"})
    assert sent(root) == sorted([*expected, ".gpulayerignore"])


DEFAULT_DROPS = {
    ".venv/pyvenv.cfg": "",
    ".venv/lib/x.py": "",
    "my-env/pyvenv.cfg": "",
    "conda/conda-meta/history": "",
    "conda/bin/python": "",
    "pkg/__pycache__/a.pyc": "",
    ".mypy_cache/x": "",
    ".pytest_cache/x": "",
    ".ruff_cache/x": "",
    "web/node_modules/m/index.js": "",
    "old.ckpt": "",
    "lightning_logs/version_0/hparams.yaml": "",
    "exp/lightning_logs/version_0/metrics.csv": "",
    "checkpoints/last.ckpt": "",
    "checkpoints/note.txt": "",
}


@pytest.mark.parametrize("in_git", [False, True])
def test_environments_caches_and_outputs_stay_by_default(tmp_path: Path, in_git: bool) -> None:
    make = a_repository if in_git else a_folder
    root = make(
        tmp_path / "src", {"train.py": "", "pkg/checkpoints/load.py": "", "pkg/checkpoints/x.ckpt": "", **DEFAULT_DROPS}
    )
    assert sent(root) == ["pkg/checkpoints/load.py", "train.py"]
    assert set(left(root)) == {
        ".venv/",
        "my-env/",
        "conda/",
        "pkg/__pycache__/",
        ".mypy_cache/",
        ".pytest_cache/",
        ".ruff_cache/",
        "web/node_modules/",
        "old.ckpt",
        "lightning_logs/",
        "exp/lightning_logs/",
        "checkpoints/",
        "pkg/checkpoints/x.ckpt",
    }
    assert all(rule.startswith("default: ") for rule in left(root).values())


@pytest.mark.parametrize("in_git", [False, True])
def test_gitignore_is_obeyed_and_its_pattern_is_named(tmp_path: Path, in_git: bool) -> None:
    files = {".gitignore": "data/\n*.log\n", "train.py": "", "data/a": "", "x.log": "", "sub/.gitignore": "!keep.log\nonly\n"}
    make = a_repository if in_git else a_folder
    root = make(tmp_path / "src", {**files, "sub/keep.log": "", "sub/only": "", "sub/other.log": ""})
    assert sent(root) == [".gitignore", "sub/.gitignore", "sub/keep.log", "train.py"]
    assert left(root) == {
        "data/": ".gitignore: data/",
        "x.log": ".gitignore: *.log",
        "sub/only": "sub/.gitignore: only",
        "sub/other.log": ".gitignore: *.log",
    }


def test_tracked_files_go_in_whatever_is_ignored_and_say_so(tmp_path: Path) -> None:
    files = {".gitignore": "data/\n", "data/kept.csv": "", "data/other.csv": "", "lightning_logs/note.md": "", "best.ckpt": ""}
    root = a_repository(tmp_path / "src", files, tracked=("data/kept.csv", "lightning_logs/note.md", "best.ckpt"))
    rows = {row.path: row.rule for row in bundle.explain(root) if row.sent}
    assert rows == {
        ".gitignore": "in the folder",
        "best.ckpt": "tracked by git",
        "data/kept.csv": "tracked by git",
        "lightning_logs/note.md": "tracked by git",
    }
    assert left(root) == {"data/other.csv": ".gitignore: data/"}


def test_our_own_patterns_beat_git_in_both_directions(tmp_path: Path) -> None:
    files = {
        ".gitignore": "data/\nout/\n",
        ".gpulayerignore": "secret.txt\n!data/needed.csv\n!best.ckpt\n",
        "secret.txt": "",
        "data/needed.csv": "",
        "data/rest.csv": "",
        "out/x": "",
        "runs/best.ckpt": "",
        "runs/other.ckpt": "",
        "user.token": "",
    }
    root = a_repository(tmp_path / "src", files, tracked=("secret.txt",))
    assert sent(root) == [".gitignore", ".gpulayerignore", "data/needed.csv", "runs/best.ckpt"]
    assert left(root) == {
        "data/rest.csv": ".gitignore: data/",
        "out/": ".gitignore: out/",
        "runs/other.ckpt": "default: *.ckpt",
        "secret.txt": ".gpulayerignore: secret.txt",
        "user.token": "always: *.token may open a plane",
    }


def test_one_pattern_switches_gitignore_off_but_brings_no_caches(tmp_path: Path) -> None:
    files = {
        ".gitignore": "data/\n",
        ".gpulayerignore": "!*\n",
        "data/a": "",
        "x.ckpt": "",
        "__pycache__/x.pyc": "",
        "v/pyvenv.cfg": "",
    }
    root = a_repository(tmp_path / "src", files)
    assert sent(root) == [".gitignore", ".gpulayerignore", "data/a", "x.ckpt"]


def test_a_token_of_a_plane_never_travels(tmp_path: Path) -> None:
    files = {".gpulayerignore": "!*\n!user.token\n!keys/\n", "user.token": "", "keys/tracked.token": "", "keys/a.py": ""}
    root = a_repository(tmp_path / "src", files, tracked=("keys/tracked.token",))
    assert sent(root) == [".gpulayerignore", "keys/a.py"]
    assert left(root) == dict.fromkeys(["user.token", "keys/tracked.token"], "always: *.token may open a plane")


def test_a_cache_is_brought_when_it_is_named(tmp_path: Path) -> None:
    files = {".gpulayerignore": "!web/node_modules/\n", "web/node_modules/m.js": "", "node_modules/m.js": ""}
    assert sent(a_folder(tmp_path / "src", files)) == [".gpulayerignore", "web/node_modules/m.js"]


def test_git_itself_and_what_is_never_to_travel_are_not_even_told_of(tmp_path: Path) -> None:
    root = a_repository(tmp_path / "src", {"a.py": "", "home/plane.db": "", "sub/.git/config": "", "sub/b.py": ""})
    bundle.pack(root, root / "out.zip", never=[root / "home"])
    rows = bundle.explain(root, never=[root / "home", root / "out.zip"])
    assert [(row.path, row.sent) for row in rows] == [("a.py", True), ("sub/b.py", True)]
    with zipfile.ZipFile(root / "out.zip") as archive:
        assert archive.namelist() == ["a.py", "sub/b.py"]


def test_the_script_goes_in_whatever_the_rules_say(tmp_path: Path) -> None:
    root = a_repository(tmp_path / "src", {".gitignore": "scratch/\n", "scratch/train.py": "", "scratch/x.py": ""})
    assert sent(root, always=[root / "scratch/train.py"]) == [".gitignore", "scratch/train.py"]
    assert left(root) == {"scratch/": ".gitignore: scratch/"}


def test_repositories_in_the_repository_travel_by_their_own_rules(tmp_path: Path) -> None:
    root = a_repository(tmp_path / "src", {"a.py": "", ".gitignore": "*.log\n"})
    a_repository(root / "inner", {"b.py": "", ".gitignore": "*.tmp\n", "x.tmp": "", "y.log": ""})
    assert sent(root) == [".gitignore", "a.py", "inner/.gitignore", "inner/b.py", "inner/y.log"]


def test_a_source_folder_that_git_ignores_travels(tmp_path: Path) -> None:
    root = a_repository(tmp_path / "src", {".gitignore": "tmp/\n", "tmp/exp/train.py": "", "tmp/exp/sub/b.py": ""})
    assert sent(root / "tmp") == ["exp/sub/b.py", "exp/train.py"]
    assert sent(root / "tmp/exp") == ["sub/b.py", "train.py"]


def test_a_part_of_a_repository_obeys_the_whole_ones_rules(tmp_path: Path) -> None:
    root = a_repository(tmp_path / "src", {".gitignore": "*.log\n", "part/a.py": "", "part/a.log": "", "b.py": ""})
    assert sent(root / "part") == ["a.py"]


def test_uncommitted_edits_travel_and_deleted_files_do_not(tmp_path: Path) -> None:
    root = a_repository(tmp_path / "src", {"a.py": "old", "gone.py": ""}, tracked=("a.py", "gone.py"))
    git(root, "-c", "user.name=x", "-c", "user.email=x@x", "commit", "-qm", "x")
    (root / "a.py").write_text("new")
    (root / "gone.py").unlink()
    packed(root)
    with zipfile.ZipFile(tmp_path / "bundle.zip") as archive:
        assert archive.namelist() == ["a.py"]
        assert archive.read("a.py") == b"new"


def test_variables_of_a_git_hook_do_not_mislead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = a_repository(tmp_path / "other", {"x": ""}, tracked=("x",))
    root = a_repository(tmp_path / "src", {".gitignore": "*.log\n", "a.log": "", "a.py": ""})
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    assert sent(root) == [".gitignore", "a.py"]


def test_without_a_git_program_the_rules_are_read_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = a_repository(tmp_path / "src", {".gitignore": "*.log\n", "a.log": "", "a.py": ""})
    monkeypatch.setenv("PATH", str(tmp_path))
    assert sent(root) == [".gitignore", "a.py"]


def test_odd_names_travel_and_impossible_ones_stay_by_name(tmp_path: Path) -> None:
    root = a_repository(tmp_path / "src", {"mit leer.py": "", "größe.py": "", "new\nline": "", "back\\slash": "", "-rf": ""})
    (root / os.fsdecode(b"bad\xff.py")).touch()
    assert sent(root) == sorted(["mit leer.py", "größe.py", "new\nline", "back\\slash", "-rf"])
    assert list(left(root).values()) == ["its name is not UTF-8"]
    packed(root)
    bundle.unpack(tmp_path / "bundle.zip", tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sent(root)


def test_empty_folders_travel(tmp_path: Path) -> None:
    root = a_repository(tmp_path / "src", {"a.py": "", "logs/": "", "deep/er/": "", ".gitignore": "no/\n", "no/": ""})
    packed(root)
    bundle.unpack(tmp_path / "bundle.zip", tmp_path / "out")
    assert (tmp_path / "out/logs").is_dir()
    assert (tmp_path / "out/deep/er").is_dir()
    assert not (tmp_path / "out/no").exists()


def test_pipes_and_sockets_are_passed_over(tmp_path: Path) -> None:
    root = a_folder(tmp_path / "src", {"a.py": ""})
    os.mkfifo(root / "pipe")
    assert sent(root) == ["a.py"]
    assert packed(root).files == 1


# --- links ---


def test_links_inside_travel_as_links(tmp_path: Path) -> None:
    root = a_folder(
        tmp_path / "src", {"real/a.txt": "hello", "link": "-> real/a.txt", "sub/up": "-> ../real", "gone": "-> nothing"}
    )
    (root / "absolute").symlink_to(root / "real" / "a.txt")
    packed(root)
    bundle.unpack(tmp_path / "bundle.zip", tmp_path / "out")
    out = tmp_path / "out"
    assert {name: os.readlink(out / name) for name in ("link", "sub/up", "gone", "absolute")} == {
        "link": "real/a.txt",
        "sub/up": "../real",
        "gone": "nothing",
        "absolute": "real/a.txt",
    }
    assert (out / "sub/up/a.txt").read_text() == "hello"


@pytest.mark.parametrize("target", ["/etc/passwd", "../outside", "..", "sub/../../outside"])
def test_a_link_that_leaves_the_root_is_refused_by_name(tmp_path: Path, target: str) -> None:
    root = a_repository(tmp_path / "src", {"a.py": "", "sub/x": "", "data": f"-> {target}"})
    with pytest.raises(LinkLeavesRoot, match=f"data -> {target}"):
        packed(root)
    assert not (tmp_path / "bundle.zip").exists()
    (root / ".gpulayerignore").write_text("/data\n")
    assert packed(root).files == 3


# --- limits ---


def test_a_source_folder_over_the_limit_fails_with_its_ten_largest_and_reads_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = a_folder(tmp_path / "src", {"a.py": "x"})
    for number in range(12):
        with (root / f"big{number:02}").open("wb") as file:
            file.truncate((number + 1) * 100_000_000)

    def read(*_: object, **__: object) -> None:
        raise AssertionError("nothing should be read")

    monkeypatch.setattr(zipfile, "ZipFile", read)
    with pytest.raises(BundleTooLarge, match="big11") as failure:
        packed(root)
    assert [name for name, _ in failure.value.facts["largest"]] == [f"big{number:02}" for number in range(11, 1, -1)]
    assert ".gpulayerignore" in str(failure.value)
    assert not (tmp_path / "bundle.zip").exists()


def test_what_stays_does_not_count(tmp_path: Path) -> None:
    root = a_repository(tmp_path / "src", {"a.py": "", ".gitignore": "data/\n", "data/x": b"x" * 5000, "w.ckpt": b"x" * 5000})
    assert packed(root, limits=Limits(bytes=1000)).files == 2


def test_too_many_files_end_the_listing(tmp_path: Path) -> None:
    root = a_folder(tmp_path / "src", {f"{number}.py": "" for number in range(30)})
    with pytest.raises(BundleTooLarge, match="more than 20 files"):
        packed(root, limits=Limits(files=20))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = a_folder(tmp_path / "src", {"a.py": "", "key.pem": ""})
    real = Path.open

    def refuse(path: Path, *args: object, **options: object) -> object:
        if path.name == "key.pem":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *args, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(BundleError, match=r"key\.pem"):
        packed(root)


# --- the bytes ---


def test_the_same_tree_makes_the_same_bytes_elsewhere_and_later(tmp_path: Path) -> None:
    files = {"b.py": "b" * 100_000, "a/c.py": "c", "run.sh": "#!/bin/sh\n", "link": "-> a/c.py", "empty/": ""}
    one, two = a_folder(tmp_path / "one", files), a_repository(tmp_path / "two", dict(reversed(files.items())))
    for root in (one, two):
        (root / "run.sh").chmod(0o755)
    os.utime(two / "b.py", (1, 1))
    first, second = packed(one, "1.zip"), packed(two, "2.zip")
    assert first.sha256 == second.sha256
    (two / "a/c.py").write_text("d")
    assert packed(two, "3.zip").sha256 != first.sha256
    (two / "a/c.py").write_text("c")
    (two / "run.sh").chmod(0o644)
    assert packed(two, "4.zip").sha256 != first.sha256


def test_modes_and_contents_come_back(tmp_path: Path) -> None:
    large = os.urandom(6_000_000)
    root = a_folder(tmp_path / "src", {"run.sh": "#!/bin/sh\n", "read-only.txt": "x", "large.bin": large})
    (root / "run.sh").chmod(0o755)
    (root / "read-only.txt").chmod(0o444)
    packed(root)
    bundle.unpack(tmp_path / "bundle.zip", tmp_path / "out")
    assert (tmp_path / "out/run.sh").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "out/read-only.txt").stat().st_mode & 0o777 == 0o644
    assert (tmp_path / "out/large.bin").read_bytes() == large


def test_an_unchanged_tree_is_not_zipped_again(tmp_path: Path) -> None:
    root = a_folder(tmp_path / "src", {"a.py": "x", "b.py": "y"})
    for path in root.iterdir():
        os.utime(path, (1, 1))
    memory, known = tmp_path / "memory.json", {"": True}

    def pack() -> bundle.Packed:
        (tmp_path / "bundle.zip").unlink(missing_ok=True)
        return packed(root, memory=memory, known=lambda sha: sha in known)

    bundle._SETTLED_NS, before = -(10**12), bundle._SETTLED_NS
    try:
        first = pack()
        assert first.path is not None
        assert pack().path is not None
        known[first.sha256] = True
        again = pack()
        assert (again.sha256, again.size, again.files, again.path) == (first.sha256, first.size, 2, None)
        (root / "b.py").write_text("z")
        os.utime(root / "b.py", (1, 1))
        changed = pack()
        assert changed.path is not None
        assert changed.sha256 != first.sha256
        memory.write_text("no json")
        assert pack().sha256 == changed.sha256
    finally:
        bundle._SETTLED_NS = before


def test_a_tree_that_changed_just_now_is_not_remembered(tmp_path: Path) -> None:
    root = a_folder(tmp_path / "src", {"a.py": "x"})
    packed(root, memory=tmp_path / "memory.json", known=lambda _: True)
    (root / "a.py").write_text("y")
    packed(root, memory=tmp_path / "memory.json", known=lambda _: True)
    assert not (tmp_path / "memory.json").exists()


def test_a_file_that_vanishes_while_it_is_packed_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = a_folder(tmp_path / "src", {"a.py": "", "b.tmp": ""})
    real = listing.list_source

    def listed_then_gone(*args: object, **options: object) -> object:
        found = real(*args, **options)  # type: ignore[arg-type]
        (root / "b.tmp").unlink()
        return found

    monkeypatch.setattr(bundle, "list_source", listed_then_gone)
    packed(root)
    with zipfile.ZipFile(tmp_path / "bundle.zip") as archive:
        assert archive.namelist() == ["a.py"]


def test_packing_leaves_the_source_folder_as_it_was(tmp_path: Path) -> None:
    root = a_repository(tmp_path / "src", {"a.py": "", "sub/b.py": ""}, tracked=("a.py",))
    before = {path: path.stat().st_mtime_ns for path in [root, *root.rglob("*")]}
    packed(root)
    assert {path: path.stat().st_mtime_ns for path in [root, *root.rglob("*")]} == before
