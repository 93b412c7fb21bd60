"""Checkpoints that several machines write together."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.network.cluster import PROGRAMS, Cluster

SHARDS = [".metadata", "__0_0.distcp", "__1_0.distcp"]


def test_a_sharded_checkpoint_comes_back_whole_from_both_machines_as_one_path(plant: Cluster, tmp_path: Path) -> None:
    folder = tmp_path / "caller"
    folder.mkdir()
    (folder / "pyproject.toml").touch()
    shutil.copy(PROGRAMS / "sharded.py", folder)
    home = {"GPULAYER_HOME": str(tmp_path / "home"), "GPULAYER_URL": plant.url, "GPULAYER_TOKEN": plant.token("user")}

    done = subprocess.run(
        [sys.executable, "sharded.py"], cwd=folder, env={**os.environ, **home}, capture_output=True, text=True, timeout=170
    )

    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["path"] == str(folder / "kept" / "epoch=1.ckpt")
    assert told["files"] == SHARDS
    assert told["rows"] == [float(row + 1) for row in range(8)]
    assert [each.name for each in (folder / "kept").iterdir()] == ["epoch=1.ckpt"]

    plane = plant.open()
    first, second = plane.checkpoints(told["job"])
    assert (first.removed, second.removed) == (True, False)
    assert [entry.path for entry in second.entries] == [f"kept/epoch=1.ckpt/{name}" for name in SHARDS]
    assert {each.path.partition("/")[0] for each in plane.artifacts(told["job"]) if "epoch=1" in each.path} == {
        "node0",
        "node1",
    }
