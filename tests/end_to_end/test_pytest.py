"""Tests that train are a script like any other: one job runs the same tests."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from .processes import SCRIPT_S
from .scripts import run_script

pytestmark = pytest.mark.timeout(3 * SCRIPT_S)
PROJECT = Path(__file__).parent / "programs" / "tested"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with checks, of which one had failed the last time."""
    project = tmp_path / "a project"
    shutil.copytree(PROJECT, project)
    failed = project / ".pytest_cache" / "v" / "cache" / "lastfailed"
    failed.parent.mkdir(parents=True)
    failed.write_text(json.dumps({"checks/check_train.py::test_it_trains_again_from_its_files": True}))
    return project


def outcomes(report: Path) -> list[tuple[str, str]]:
    """Return each test with how it ended, in the order in which they ran."""
    cases = ElementTree.parse(report).iter("testcase")
    return [
        (case.attrib["name"], next((each.tag for each in case if each.tag in ("failure", "error")), "ok")) for case in cases
    ]


def files(project: Path) -> set[str]:
    return {str(path.relative_to(project)) for path in project.rglob("*") if path.is_file() and "__pycache__" not in path.parts}


def test_a_run_of_pytest_is_one_job_and_ends_as_it_would_here(project: Path, tmp_path: Path) -> None:
    before = files(project)
    words = ["-m", "pytest", f"{project}/checks/check_train.py", "-k", "not asked", "--ff", "-rA"]
    elsewhere = tmp_path / "else where"
    elsewhere.mkdir()
    done = run_script(elsewhere, *words, "--junitxml=report.xml", f"--basetemp={tmp_path}/tmp", "--maxfail=5")
    assert done.returncode == 1, done.stdout + done.stderr
    assert outcomes(elsewhere / "report.xml") == [
        ("test_it_trains_again_from_its_files", "ok"),
        ("test_without_a_call", "ok"),
        ("test_what_a_fixture_trained_is_here", "ok"),
        ("test_that_is_wrong", "failure"),
        ("test_each_parameter_has_a_call[1]", "ok"),
        ("test_each_parameter_has_a_call[2]", "ok"),
        ("test_a_call_fails", "ok"),
        ("test_after_a_failure", "ok"),
    ]
    assert done.stdout.count("test session starts") == 1
    assert done.stdout.count("inside of the call on rank 0") == 4  # the one that capsys read is not shown again
    assert "rank 1" not in done.stdout
    assert (done.stdout + done.stderr).count("gpulayer: job-") == 1  # after the failed call; capsys has read of the first job
    assert {name for name in files(project) - before if not name.startswith(".pytest_cache/")} == set()
    assert "test_that_is_wrong" in (project / ".pytest_cache" / "v" / "cache" / "lastfailed").read_text()
    assert [path.name for path in elsewhere.iterdir()] == ["report.xml"]
    assert not list(tmp_path.rglob("*.job-*"))
