"""Every Lightning that GPUlayer says it knows: its private names are there, and a script comes back as from torchrun."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .processes import SCRIPT_S

pytestmark = pytest.mark.timeout(5 * SCRIPT_S)

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "programs"
CONTRACTS = ("test_names.py", "test_parts.py", "test_seam.py", "test_in_job.py")
OTHERS = ("2.4.0", "2.5.6")
"""Beside the newest, which all other tests run on."""


@pytest.fixture(scope="module", params=OTHERS)
def lightning(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process that finds another Lightning before the installed one."""
    version: str = request.param
    place = tmp_path_factory.mktemp("lightning")
    install = ["install", "--quiet", "--no-deps", "--target", str(place), f"lightning=={version}"]
    subprocess.run([sys.executable, "-m", "pip", *install], check=True, timeout=300, stdin=subprocess.DEVNULL)
    found = [str(place), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(found), "OMP_NUM_THREADS": "1", "VERSION": version}


def run(lightning: dict[str, str], folder: Path, *argv: str, **env: str) -> str:
    done = subprocess.run(
        [sys.executable, *argv],
        cwd=folder,
        env={**lightning, **env},
        capture_output=True,
        text=True,
        timeout=2 * SCRIPT_S,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_private_names_that_we_use_are_there(lightning: dict[str, str]) -> None:
    seen = run(lightning, ROOT, "-c", "import lightning; print(lightning.__version__)").strip()
    assert seen == lightning["VERSION"]
    tests = [str(ROOT / "tests" / "strategies" / name) for name in CONTRACTS]
    # Older releases warn of what newer Pythons and torches have dropped since.
    run(lightning, ROOT, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore", *tests)


def test_a_fit_and_a_test_come_back_as_from_torchrun(lightning: dict[str, str], tmp_path: Path) -> None:
    import torch

    found: list[dict[str, Any]] = []
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    for name, words, accelerator in (("apart", torchrun, "cpu"), ("job", (), "gpulayer")):
        folder = tmp_path / name / "caller"
        folder.mkdir(parents=True)
        shutil.copy(PROGRAMS / "whole.py", folder)
        outcome = folder.parent / "outcome.pt"
        run(lightning, folder, *words, "whole.py", ACCELERATOR=accelerator, DEVICES="2", OUTCOME=str(outcome))
        found.append(torch.load(outcome, weights_only=True))
    expected, got = found
    assert got.keys() == expected.keys()
    assert _plain(got) == _plain(expected)


def _plain(value: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        return value.tolist()
    return {key: _plain(each) for key, each in value.items()} if isinstance(value, dict) else value


def test_predictions_are_those_of_one_device(lightning: dict[str, str], tmp_path: Path) -> None:
    found = []
    for name, accelerator, devices in (("one", "cpu", "1"), ("two", "gpulayer", "2")):
        folder = tmp_path / name
        folder.mkdir()
        shutil.copy(PROGRAMS / "predicting.py", folder)
        said = run(lightning, folder, "predicting.py", ACCELERATOR=accelerator, DEVICES=devices)
        found.append(json.loads(said.strip().splitlines()[-1]))
    one, two = found
    several = ("ranks", "told", "own shards", "a sampler of one's own")
    assert {name: two[name] for name in one if name not in several} == {name: one[name] for name in one if name not in several}
