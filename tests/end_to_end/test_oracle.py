"""Lightning's own ``ddp`` is the oracle: one script leaves the same objects and files there and at the caller of a job."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from .allowed import ALLOWED, differences
from .processes import SCRIPT_S
from .scripts import run_script

pytestmark = pytest.mark.timeout(5 * SCRIPT_S)
PROGRAMS = Path(__file__).parent / "programs" / "oracle"
SCRIPTS = ("watching", "changing")
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
Moments = dict[str, dict[str, str]]


def described(folder: Path, *argv: str, accelerator: str) -> Moments:
    """Run a script and return what it saw, place by place, at each of its moments."""
    shutil.copytree(PROGRAMS, folder)
    seen = folder.parent / "seen"
    done = run_script(folder, *argv, ACCELERATOR=accelerator, NODES="1", DEVICES="2", SEEN=str(seen))
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [json.loads(line) for line in seen.read_text(encoding="utf-8").splitlines()]
    return {line["moment"]: line["seen"] for line in lines}


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Moments, Moments]]:
    """What each script saw under torchrun and as a job."""
    found = {}
    for name in SCRIPTS:
        top = tmp_path_factory.mktemp(name)
        expected = described(top / "ddp" / "caller", *TORCHRUN, f"{name}.py", accelerator="cpu")
        found[name] = expected, described(top / "job" / "caller", f"{name}.py", accelerator="gpulayer")
    return found


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_caller_has_what_ddp_leaves(pairs: dict[str, tuple[Moments, Moments]], name: str) -> None:
    expected, got = pairs[name]

    assert got.keys() == expected.keys()
    assert sum(map(len, expected.values())) > 10_000
    assert [line for moment in expected for line in differences(moment, expected[moment], got[moment], set())] == []


def test_every_allowance_is_needed(pairs: dict[str, tuple[Moments, Moments]]) -> None:
    used: set[str] = set()
    for expected, got in pairs.values():
        for moment in expected:
            differences(moment, expected[moment], got.get(moment, {}), used)

    assert set(ALLOWED) - used == set()
