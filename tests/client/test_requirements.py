"""The files in which people keep what their programs need."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpulayer.client import requirements
from gpulayer.errors import InvalidRequirement
from gpulayer.spec.job import CommandJob


def written(tmp_path: Path, text: str, name: str = "requirements.txt") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def test_a_file_of_lines_is_read_as_pip_reads_it(tmp_path: Path) -> None:
    written(tmp_path, "other>=1\n", "more.txt")
    path = written(
        tmp_path,
        "# comment\n\neinops  # needed\nnumpy>=1.2,<3 ; python_version > '3.8'\n-r more.txt\n"
        "locked==1.0 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\n",
    )

    assert requirements.read(path) == (
        "einops",
        "numpy>=1.2,<3 ; python_version > '3.8'",
        "other>=1",
        "locked==1.0 --hash=sha256:aa --hash=sha256:bb",
    )


def test_what_is_given_comes_before_the_file_and_hashes_are_for_all_or_none(tmp_path: Path) -> None:
    assert requirements.gather(("first",), written(tmp_path, "second\n")) == ("first", "second")
    with pytest.raises(InvalidRequirement, match="'first' has no hash, and others have"):
        requirements.gather(("first",), written(tmp_path, "locked==1.0 --hash=sha256:aa\n"))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("numpy\n\n==1.0\n", r"requirements\.txt, line 3: '==1\.0' is no requirement"),
        ("-e .\n", r"line 1: -e is an option of pip"),
        ("--index-url https://x\n", r"line 1: --index-url is an option of pip"),
        ("-r gone.txt\n", r"gone\.txt can't be read"),
    ],
)
def test_what_can_not_be_read_is_named_by_its_line(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(InvalidRequirement, match=sentence):
        requirements.read(written(tmp_path, text))


def test_a_lock_gives_versions_markers_and_hashes(tmp_path: Path) -> None:
    lock = """
        lock-version = "1.0"
        created-by = "test"
        [[packages]]
        name = "attrs"
        version = "25.1.0"
        marker = "python_version >= '3.11'"
        wheels = [{name = "attrs-25.1.0-py3-none-any.whl", url = "https://x/attrs.whl", hashes = {sha256 = "aa"}}]
        [packages.sdist]
        name = "attrs-25.1.0.tar.gz"
        url = "https://x/attrs.tar.gz"
        hashes = {sha256 = "bb"}
        [[packages]]
        name = "plain"
        version = "2"
    """

    assert requirements.read(written(tmp_path, lock, "pylock.toml")) == (
        "attrs==25.1.0 ; python_version >= '3.11' --hash=sha256:aa --hash=sha256:bb",
        "plain==2",
    )


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("pylock.toml", "packages = 3", "is no lock of packages"),
        ("pylock.dev.toml", "[[packages]]\nname = 'x'\ndirectory = {path = '.'}", "x is locked to a folder or repository"),
        ("pylock.toml", "[[packages", "is no lock of packages"),
        ("uv.lock", "version = 1", "uv's own kind of lock"),
    ],
)
def test_a_lock_that_can_not_be_used_is_refused(tmp_path: Path, name: str, text: str, sentence: str) -> None:
    with pytest.raises(InvalidRequirement, match=sentence):
        requirements.read(written(tmp_path, text, name))


@pytest.mark.parametrize("line", ["==1", "a\n--index-url x", "-e ."])
def test_a_job_with_a_line_that_is_no_requirement_can_not_be_made(line: str) -> None:
    with pytest.raises(InvalidRequirement):
        CommandJob(command=("true",), requirements=(line,))
