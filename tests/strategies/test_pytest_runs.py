"""Runs of pytest: the one that these tests run in is the example."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpulayer.errors import ScriptUnavailable
from gpulayer.strategies import pytest_runs
from gpulayer.strategies.paths import between

IN_A_WORKER = """
import pytest
from gpulayer.errors import ScriptUnavailable
from gpulayer.strategies import pytest_runs

def test_it():
    with pytest.raises(ScriptUnavailable, match="pytest-xdist.*`-n 0`"):
        pytest_runs.check(pytest_runs.session())
"""


@pytest.fixture
def shuffling(request: pytest.FixtureRequest) -> Iterator[str]:
    """The plugin of a random order, as far as its name goes."""
    manager, plugin = request.config.pluginmanager, object()
    manager.register(plugin, "randomly")
    yield "randomly"
    manager.unregister(plugin)


def test_the_run_is_found_from_inside_of_a_test_and_of_a_fixture(request: pytest.FixtureRequest) -> None:
    assert pytest_runs.session() is request.session


def test_the_tests_of_a_run_are_told_in_their_order(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    told = pytest_runs.told(request.session, lambda folder: [str(folder / "x")])
    assert told["tests"] == [item.nodeid for item in request.session.items]
    assert tmp_path.parent == Path(told["tmp"])
    assert told["brought"] == [str(tmp_path.parent / "x")]


def test_a_run_in_order_may_be_a_job(request: pytest.FixtureRequest) -> None:
    pytest_runs.check(request.session)


def test_a_random_order_is_refused_with_the_way_out(request: pytest.FixtureRequest, shuffling: str) -> None:
    with pytest.raises(ScriptUnavailable, match=r"`-p no:randomly`, or with a seed: `--randomly-seed=1`"):
        pytest_runs.check(request.session)


@pytest.mark.parametrize(
    ("words", "fixed"), [("--randomly-seed=3", True), ("--randomly-seed 3", True), ("--randomly-seed=last", False)]
)
def test_a_seed_makes_an_order_known(
    request: pytest.FixtureRequest, shuffling: str, monkeypatch: pytest.MonkeyPatch, words: str, fixed: bool
) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", words)
    if fixed:
        pytest_runs.check(request.session)
    else:
        with pytest.raises(ScriptUnavailable):
            pytest_runs.check(request.session)


def test_a_worker_of_xdist_is_refused_with_the_way_out(tmp_path: Path) -> None:
    pytest.importorskip("xdist")
    (tmp_path / "test_it.py").write_text(IN_A_WORKER)
    words = ("-m", "pytest", "-q", "-n", "1", "-p", "no:cacheprovider", "test_it.py")
    done = subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_arguments_name_the_files_of_the_job() -> None:
    paths = between("/home/me/project", "/home/me", "/work")
    words = [
        "/home/me/project/tests/test_a.py::test_b[/x]",
        "-k",
        "c",
        "--rootdir=/home/me/project",
        "/elsewhere/t.py",
        "tests",
    ]
    root = "../../.."
    moved = [f"{root}/tests/test_a.py::test_b[/x]", "-k", "c", f"--rootdir={root}", "/elsewhere/t.py", "tests"]
    assert list(pytest_runs.moved(words, paths)) == moved
