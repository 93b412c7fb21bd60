"""Shells in which Slurm and torchrun have left their variables: neither callers nor workers nor jobs take them for theirs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.processes import SCRIPT_S
from tests.end_to_end.test_remote import PROGRAMS, Fleet, gpulayer

pytestmark = pytest.mark.timeout(2 * SCRIPT_S)
WORDS = """
RANK=5 WORLD_SIZE=8 LOCAL_RANK=3 LOCAL_WORLD_SIZE=4 GROUP_RANK=1 NODE_RANK=1 MASTER_ADDR=192.0.2.1 MASTER_PORT=29500
TORCHELASTIC_RUN_ID=other TORCHELASTIC_RESTART_COUNT=0 TORCHELASTIC_MAX_RESTARTS=3 TORCHELASTIC_USE_AGENT_STORE=True
TORCHELASTIC_ERROR_FILE=/nowhere/e.json PET_NNODES=2 OMPI_COMM_WORLD_RANK=5 PMI_RANK=5
SLURM_JOB_ID=77 SLURM_JOB_NAME=train SLURM_NTASKS=8 SLURM_NTASKS_PER_NODE=4 SLURM_NNODES=2 SLURM_PROCID=5
SLURM_LOCALID=1 SLURM_NODEID=1 SLURM_NODELIST=other-[1-2] SLURM_STEP_ID=0
"""
LEFT = dict(word.split("=") for word in WORDS.split())


@pytest.fixture(autouse=True)
def left(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell of a step of another job."""
    for name, value in LEFT.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def fleet(tmp_path: Path, left: None) -> Iterator[Fleet]:
    (tmp_path / "fleet").mkdir()
    made = Fleet(tmp_path / "fleet", 2)
    try:
        made.wait_until_up()
        yield made
    finally:
        made.close()


def test_a_trainer_is_rank_0_of_its_own_job(tmp_path: Path) -> None:
    program = [sys.executable, str(PROGRAMS / "foreign.py")]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, timeout=SCRIPT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    seen = json.loads(done.stdout.partition("SEEN ")[2].splitlines()[0])
    assert seen == {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "SLURM_NTASKS": None, "SLURM_JOB_ID": None}
    assert json.loads(done.stdout.partition("CALLER ")[2].splitlines()[0]) == [2, True, 2, True, "5"]


def test_standing_workers_start_the_ranks_of_their_jobs_and_nothing_else(fleet: Fleet, tmp_path: Path) -> None:
    folder = tmp_path / "caller"
    folder.mkdir()
    (folder / "pyproject.toml").touch()
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "NODE_RANK", "TORCHELASTIC_RUN_ID")
    (folder / "script.py").write_text(
        "import os, torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "x = torch.ones(1)\n"
        "dist.all_reduce(x)\n"
        f"told = [os.environ.get(name) for name in {names}]\n"
        "print(int(x), told, [name for name in os.environ if name[:3] in ('SLU', 'OMP', 'PMI')])\n"
    )
    done = gpulayer(fleet, folder, "launch", "script.py", "--num-workers", "2")
    assert done.returncode == 0, done.stderr
    said = sorted(done.stdout.splitlines())
    for rank, line in enumerate(said):
        assert line.startswith(f"[rank{rank}] 2 ['{rank}', '2', '0', None, "), line
        assert "'other'" not in line
        assert line.endswith("['OMP_NUM_THREADS']"), line
