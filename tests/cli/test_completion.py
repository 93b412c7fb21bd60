"""What a shell is told when Tab is pressed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpulayer import plane as planes
from gpulayer.spec.job import CommandJob


def offered(*words: str) -> list[str]:
    """Ask as bash does; the last word is the one that is not whole yet."""
    asked = {"COMP_WORDS": " ".join(["gpulayer", *words]), "COMP_CWORD": str(len(words)), "_GPULAYER_COMPLETE": "bash_complete"}
    program = "from gpulayer.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **asked}, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


@pytest.fixture
def job(home: Path) -> str:
    plane = planes.open(home, process="cli")
    try:
        return plane.submit(CommandJob(command=("true",), on_unschedulable="queue")).id
    finally:
        plane.close()


def test_verbs_and_options_are_offered() -> None:
    assert offered("jo") == ["jobs"]
    assert offered("jobs", "sh") == ["show"]
    assert offered("run", "--dry") == ["--dry-run"]


def test_ids_of_jobs_are_offered_from_the_plane_that_the_line_names(home: Path, job: str) -> None:
    assert offered("jobs", "show", "job-") == [job]
    assert offered("jobs", "rm", "job-x") == []
    assert offered("--profile", "none", "jobs", "show", "job-") == []


def test_asking_makes_no_home(home: Path) -> None:
    assert offered("jobs", "show", "job-") == []
    assert not home.exists()


def test_profiles_are_offered(tmp_path: Path) -> None:
    file = tmp_path / "config" / "gpulayer" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text("[profiles.lab]\n[profiles.disk]\n")

    assert offered("--profile", "l") == ["lab"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_names_the_program(shell: str) -> None:
    done = subprocess.run([sys.executable, "-m", "gpulayer", "completion", shell], capture_output=True, text=True, check=True)
    assert f"_GPULAYER_COMPLETE={shell}_complete" in done.stdout


def test_bash_completes_with_it(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    program = tmp_path / "gpulayer"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m gpulayer "$@"\n')
    program.chmod(0o700)
    script = """
        eval "$(gpulayer completion bash)"
        COMP_WORDS=(gpulayer jobs exp) COMP_CWORD=2
        _gpulayer_completion gpulayer
        echo "${COMPREPLY[@]}"
    """
    environ = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run([bash, "-c", script], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout == "explain\n"
