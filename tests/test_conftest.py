"""The promises that all other tests rest on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.left_running import left_running, wait_until_none_is_left

WAIT = [sys.executable, "-c", "import sys; print('up', flush=True); sys.stdin.read()"]


def test_every_test_has_a_home_of_its_own(home: Path) -> None:
    assert os.environ["GPULAYER_HOME"] == str(home)
    assert not home.exists()


@pytest.mark.parametrize("how", ["environment", "argument"])
def test_a_process_that_names_the_home_is_seen_until_it_ends(home: Path, how: str) -> None:
    extra = [str(home)] if how == "argument" else []
    env = {key: value for key, value in os.environ.items() if key != "GPULAYER_HOME" or how == "environment"}
    with subprocess.Popen([*WAIT, *extra], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert child.pid in left_running(home)
    assert wait_until_none_is_left(home) == {}


def run_pytest(folder: Path, text: str, **env: str) -> str:
    """Run one test file under our conftest and return what pytest printed."""
    (folder / "test_it.py").write_text(text)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "tests.conftest",
        "--rootdir",
        str(folder),
        "-c",
    ]
    command += [os.devnull, str(folder)]
    root = Path(__file__).parents[1]
    clean = {key: value for key, value in os.environ.items() if key != "CI"}
    done = subprocess.run(command, cwd=root, env={**clean, **env}, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout


SKIPPED = """
import pytest
def test_skips():
    pytest.skip("no such part")
"""


def test_a_skip_fails_in_ci(tmp_path: Path) -> None:
    assert "1 failed" in run_pytest(tmp_path, SKIPPED, CI="true")


def test_a_skip_is_a_skip_elsewhere(tmp_path: Path) -> None:
    assert "1 skipped" in run_pytest(tmp_path, SKIPPED)


def test_a_gpu_test_may_skip_in_ci(tmp_path: Path) -> None:
    marked = SKIPPED.replace("def test", "@pytest.mark.gpu\ndef test")
    assert "1 skipped" in run_pytest(tmp_path, "import warnings\nwarnings.simplefilter('ignore')\n" + marked, CI="true")


def test_a_module_that_skips_itself_fails_in_ci(tmp_path: Path) -> None:
    assert "skipped in CI" in run_pytest(tmp_path, "import pytest\npytest.importorskip('no_such_module')\n", CI="true")
