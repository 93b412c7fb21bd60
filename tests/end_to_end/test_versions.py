"""A Lightning that was never tried."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from gpulayer import plane

SCRIPT = """
import lightning.pytorch as pl
pl.__version__ = "9.9.0"
import gpulayer as gl
gl.Trainer(devices=2)
print("MADE")
"""


def test_a_newer_lightning_than_is_known_is_refused_before_anything_starts(tmp_path: Path, home: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)

    done = subprocess.run([sys.executable, str(script)], env=dict(os.environ), capture_output=True, text=True, timeout=120)

    assert done.returncode == 1
    assert "MADE" not in done.stdout
    assert "This is Lightning 9.9.0; GPUlayer knows 2." in done.stderr
    with closing(plane.open(home)) as opened:
        assert opened.jobs() == []
