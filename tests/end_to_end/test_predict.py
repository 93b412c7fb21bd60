"""predict on several ranks returns what one device returns, whatever the loader."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from .processes import SCRIPT_S
from .scripts import run_script

pytestmark = pytest.mark.timeout(3 * SCRIPT_S)
PROGRAM = Path(__file__).parent / "programs" / "predicting.py"
_OF_SEVERAL = ("ranks", "told", "own shards", "a sampler of one's own")


def run(folder: Path, **env: str) -> dict[str, Any]:
    folder.mkdir()
    shutil.copy(PROGRAM, folder)
    done = run_script(folder, PROGRAM.name, **env)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


@pytest.mark.parametrize(("nodes", "devices"), [("1", "2"), ("3", "1")])
def test_predictions_are_those_of_one_device_and_three_calls_are_one_job(tmp_path: Path, nodes: str, devices: str) -> None:
    expected = run(tmp_path / "one", ACCELERATOR="cpu", DEVICES="1")

    got = run(tmp_path / "several", ACCELERATOR="gpulayer", NODES=nodes, DEVICES=devices)

    assert expected["uneven"][0] == [0.0, 1.0, 2.0, 3.0]
    assert got["jobs"] == 1
    for name in expected.keys() - set(_OF_SEVERAL):
        assert got[name] == expected[name], name
    assert got["ranks"] == int(nodes) * int(devices)
    assert sorted(itertools.chain(*got["a sampler of one's own"])) == [float(row) for row in range(9)]
    assert sorted(itertools.chain(*got["own shards"])) == [float(row) for row in range(8)]
    (told,) = got["told"]
    assert "dataloader 0 (DataLoader of Stream)" in told
