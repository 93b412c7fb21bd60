"""Runs two ways of doing the same thing in turn, and prints their ratio with the machine it was seen on."""

from __future__ import annotations

import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"
RESULTS = Path(__file__).parent / "results"


def probe(ours: bool, *, steps: int, procs: int = 2) -> dict[str, object]:
    """Run the probe once under GPUlayer or bare torchrun; return its line, plus ``started`` (before the process was made)."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        env = {**os.environ, "OMP_NUM_THREADS": "1", "PROBE_STEPS": str(steps), "PROBE_DEVICES": str(procs)}
        command = [sys.executable]
        if ours:
            env |= {"PROBE_ACCELERATOR": "gpulayer", "GPULAYER_HOME": os.path.join(folder, "home")}
        else:
            command += ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(procs)]
        # A user's project: what is bundled is the folder of its script, not this whole repository.
        command.append(shutil.copy(PROGRAMS / "probe.py", folder))
        started = time.time()
        done = subprocess.run(
            command,
            cwd=folder,
            env=env,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        lines = [line[6:] for line in done.stdout.splitlines() if line.startswith("PROBE ")]
        if not lines:
            raise SystemExit(f"the probe printed nothing (exit {done.returncode}):\n{done.stderr[-2000:]}")
        return {"started": started, **json.loads(lines[-1])}


def rotate(name: str, must: float, ours: Callable[[], float], theirs: Callable[[], float], *, rounds: int) -> None:
    """Measure both sides in turn after one round that isn't counted; print and keep the ratio of each pair."""
    keep(name, compared(name, must, ours, theirs, rounds=rounds))


def compared(
    name: str, must: float, ours: Callable[[], float], theirs: Callable[[], float], *, rounds: int
) -> dict[str, object]:
    """Do as ``rotate`` does, but return what is to be kept."""
    ours(), theirs()
    pairs = [(ours(), theirs()) if turn % 2 else (theirs(), ours())[::-1] for turn in range(rounds)]
    ratios = [a / b for a, b in pairs]
    row = {
        "name": name,
        "must": must,
        "ratio": statistics.median(ratios),
        "ratio_min": min(ratios),
        "ratio_max": max(ratios),
        "ours": statistics.median(a for a, _ in pairs),
        "theirs": statistics.median(b for _, b in pairs),
        "rounds": rounds,
        "machine": machine(),
    }
    print(
        f"{name}: {row['ratio']:.3f} (must {must}; {row['ratio_min']:.3f} to {row['ratio_max']:.3f} in {rounds} pairs; "
        f"medians {row['ours']:.4f} s against {row['theirs']:.4f} s; {row['machine']})",
        flush=True,
    )
    return row


def machine() -> str:
    """Name the machine, and how much else it has to do now."""
    return f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}"


def keep(name: str, row: object) -> None:
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(row, indent=1))


def at(share: float, values: Sequence[float]) -> float:
    """Return the value that a share of them does not exceed."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]
