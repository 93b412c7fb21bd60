"""``gpulayer run`` and ``gpulayer launch`` as programs of their own, with real workers and processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

GPULAYER = [sys.executable, "-m", "gpulayer"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "pyproject.toml").write_text("")
    return root


def gpulayer(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*GPULAYER, *arguments], cwd=project, capture_output=True, text=True, timeout=120, check=False)


def newest(project: Path) -> str:
    return gpulayer(project, "jobs", "ls", "-q").stdout.split()[0]


def test_a_command_runs_in_a_copy_of_the_folder_and_its_files_are_kept(project: Path) -> None:
    (project / "given.txt").write_text("given")
    done = gpulayer(project, "run", "--env", "WORD=hello", "--", "sh", "-c", "echo $WORD; cat given.txt > made.txt; pwd")
    assert done.returncode == 0, done.stderr
    hello, folder = done.stdout.split()
    assert hello == "hello"
    assert folder != str(project)
    assert not (project / "made.txt").exists()
    assert "succeeded" in done.stderr
    assert gpulayer(project, "artifacts", "cat", newest(project), "node0/made.txt").stdout == "given"


def test_an_input_is_read_from_where_the_person_stands(project: Path) -> None:
    (project.parent / "words").write_text("there\n")
    done = gpulayer(project, "run", "--input", "../words=deep/w", "--", "sh", "-c", "cat $GPULAYER_INPUT_DIR/deep/w")
    assert done.stdout == "there\n", done.stderr


def test_a_file_of_variables_is_the_jobs_environment(project: Path) -> None:
    (project / ".env").write_text("# of this project\nexport WORD='two words'\nEMPTY=\n")
    done = gpulayer(project, "run", "--env-file", ".env", "--", "sh", "-c", 'echo "$WORD/${EMPTY-unset}"')
    assert (done.returncode, done.stdout) == (0, "two words/\n"), done.stderr
    missing = gpulayer(project, "run", "--env-file", "other.env", "true")
    assert missing.returncode == 2
    assert "other.env" in missing.stderr
    assert "Traceback" not in missing.stderr


def test_a_failed_command_is_1_and_told_with_its_own_exit_code(project: Path) -> None:
    done = gpulayer(project, "run", "sh", "-c", "exit 7")
    assert done.returncode == 1
    assert json.loads(gpulayer(project, "jobs", "show", newest(project), "--json").stdout)["tasks"][0]["exit_code"] == 7


def test_a_script_is_launched_on_every_rank(project: Path) -> None:
    (project / "train.py").write_text("import os, sys\nprint('rank', os.environ['RANK'], sys.argv[1:])\n")
    done = gpulayer(project, "launch", "train.py", "--num-workers", "2", "--procs-per-worker", "2", "--", "--lr", "0.1")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"[rank{r}] rank {r} ['--lr', '0.1']" for r in range(4)]


def test_auto_processes_are_one_on_each_worker_without_gpus(project: Path) -> None:
    (project / "train.py").write_text("import os\nprint(os.environ['WORLD_SIZE'])\n")
    done = gpulayer(project, "launch", "train.py", "--num-workers", "2", "--procs-per-worker", "auto")
    assert sorted(done.stdout.splitlines()) == ["[rank0] 2", "[rank1] 2"], done.stderr
    assert gpulayer(project, "launch", "train.py", "--procs-per-worker", "some").returncode == 2


def test_a_gpu_that_is_not_here_is_refused_at_once_with_the_reason(project: Path) -> None:
    done = gpulayer(project, "run", "--gpus", "99", "true")
    assert done.returncode == 1
    assert "99 usable cuda device" in done.stderr
    assert "Traceback" not in done.stderr


def test_ctrl_c_cancels_and_is_130(project: Path) -> None:
    command = [*GPULAYER, "run", "--", "sh", "-c", "echo up; exec sleep 600"]
    with subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "up\n"
        os.kill(running.pid, signal.SIGINT)
        said = running.communicate(timeout=60)[1]
    assert running.returncode == 130, said
    assert json.loads(gpulayer(project, "jobs", "show", newest(project), "--json").stdout)["state"] == "cancelled"


def test_a_function_answers_in_json_and_what_it_prints_is_beside(project: Path) -> None:
    (project / "sums.py").write_text(
        "def add(*terms, scale=1):\n    print('adding', terms)\n    return {'sum': sum(terms) * scale}\n"
    )
    done = gpulayer(project, "call", "sums:add", "--arg", "1", "--arg", "2.5", "--kwarg", "scale=2")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"sum": 7.0}
    assert "adding (1, 2.5)" in done.stderr


def test_a_function_that_fails_prints_no_result(project: Path) -> None:
    (project / "sums.py").write_text("def fail():\n    raise ValueError('no')\n")
    done = gpulayer(project, "call", "sums:fail")
    assert (done.returncode, done.stdout) == (1, "")
    assert "ValueError: no" in done.stderr


def test_a_dry_run_answers_and_submits_nothing(project: Path) -> None:
    done = gpulayer(project, "run", "--dry-run", "--gpus", "99", "true")
    assert "99 usable cuda device" in done.stdout
    assert done.returncode == 1  # a script asks this way
    possible = gpulayer(project, "run", "--dry-run", "--json", "true")
    assert possible.returncode == 0, possible.stderr
    assert json.loads(possible.stdout)["never"] is False
    assert json.loads(gpulayer(project, "jobs", "ls", "--json").stdout) == []
    assert gpulayer(project, "run", "--json", "true").returncode == 2


def test_nobody_to_leave_a_job_to_is_said(project: Path) -> None:
    done = gpulayer(project, "run", "--detach", "true")
    assert done.returncode == 2
    assert "gpulayer up" in done.stderr
    assert json.loads(gpulayer(project, "jobs", "ls", "--json").stdout) == []
