"""The main job: the same script under torchrun and as a job leaves the same things behind, bit for bit."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from .processes import SCRIPT_S
from .scripts import run_script

pytestmark = pytest.mark.timeout(3 * SCRIPT_S)
PROGRAMS = Path(__file__).parent / "programs"
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a user with the script in it."""
    folder = tmp_path / "caller"
    folder.mkdir()
    shutil.copy(PROGRAMS / "whole.py", folder)
    return folder


def run(folder: Path, *argv: str, **env: str) -> dict[str, Any]:
    """Run the program to its end and read what it wrote."""
    outcome = folder.parent / "outcome.pt"
    done = run_script(folder, *argv, "whole.py", OUTCOME=str(outcome), **env)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = torch.load(outcome, weights_only=True)
    return found


def assert_same(one: Any, other: Any, at: str = "") -> None:
    if isinstance(one, torch.Tensor):
        assert torch.equal(one, other), at
    elif isinstance(one, dict):
        assert one.keys() == other.keys(), at
        for key in one:
            assert_same(one[key], other[key], f"{at}.{key}")
    else:
        assert one == other, at


@pytest.mark.parametrize(("nodes", "devices"), [(1, 2), (2, 2)])
def test_a_job_equals_torchrun_bit_for_bit(folder: Path, tmp_path: Path, nodes: int, devices: int) -> None:
    other = tmp_path / "torchrun" / "caller"
    shutil.copytree(folder, other)
    world = str(nodes * devices)
    expected = run(other, *TORCHRUN, world, ACCELERATOR="cpu", DEVICES=world)

    got = run(folder, ACCELERATOR="gpulayer", NODES=str(nodes), DEVICES=str(devices))

    assert_same(got, expected)
    ours = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    theirs = {str(path.relative_to(other)) for path in other.rglob("*") if path.is_file()}
    assert ours == theirs


def test_a_second_run_writes_beside_the_first(folder: Path) -> None:
    run(folder, ACCELERATOR="gpulayer", DEVICES="1")
    first = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    got = run(folder, ACCELERATOR="gpulayer", DEVICES="1")

    assert got["paths"][0] == "lightning_logs/version_1"
    assert {path: path.read_bytes() for path in first} == first
