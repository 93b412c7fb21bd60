"""The README's example, run as a reader would."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.docs.test_pages import BLOCK, ROOT


def test_the_example_trains(tmp_path: Path) -> None:
    blocks = BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    (code,) = [block for block in blocks if block.startswith("# train.py")]
    (tmp_path / "train.py").write_text(code)
    done = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True, timeout=170, check=False)
    assert done.returncode == 0, done.stderr
    weight, bias = map(float, done.stdout.split()[-2:])
    assert abs(weight - 3) < 0.2
    assert abs(bias + 1) < 0.2
