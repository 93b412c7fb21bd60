"""Lines of a job from its print to the screen of who follows it: how many a second, and how late those of a slow printer.

Beside the same program under torchrun's own ``--tee``, and in a pipe to ``cat``. Each is timed from the first line's print
to the last line's arrival, so that starting up doesn't count.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rotation import PROGRAMS, at, keep, machine
from standing import GPULAYER, PLANES, Standing, clean

MUST_PER_S, AIM_PER_S, MUST_LATE_S = 100_000, 500_000, 0.3
MANY, SLOW, PAUSE_S = int(os.environ.get("BENCH_LINES", "500000")), 400, 0.02
ROUNDS = 2

_LINES = [sys.executable, str(PROGRAMS / "lines.py")]
_TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "1", "--tee", "3"]
_PEERS: dict[str, list[str]] = {
    "cat": ["sh", "-c", '"$@" | cat', "sh", *_LINES],
    "torchrun --tee": [*_TORCHRUN, str(PROGRAMS / "lines.py")],
}


def read(command: Sequence[str], environ: Mapping[str, str], count: int) -> tuple[float, list[float]]:
    """Run a program to its end; seconds from the first print to the last arrival, and how late each line arrived."""
    with tempfile.TemporaryDirectory(prefix="bench-cwd-") as folder:
        program = subprocess.Popen(
            [*command, str(count)], env=environ, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=1 << 20
        )
        assert program.stdout is not None
        assert program.stderr is not None
        late, first, last, seen = list[float](), 0.0, 0.0, 0
        for line in program.stdout:
            if b" at " not in line:
                continue
            last = time.time()
            seen += 1
            if not first:
                first = float(line.rpartition(b" at ")[2])
            if "PAUSE" in environ:
                late.append(last - float(line.rpartition(b" at ")[2]))
        complaint = program.stderr.read().decode(errors="replace")
        program.stdout.close()
        program.stderr.close()
        if program.wait() or seen != count:
            raise SystemExit(f"{command} ended with {program.returncode} after {seen} lines of {count}:\n{complaint[-2000:]}")
    return last - first, late


def follower(standing: Standing) -> tuple[list[str], dict[str, str]]:
    """Return the command line of a person who runs a job and follows it."""
    return [*GPULAYER, "run", "--target", standing.target, "--forward-env", "PAUSE", "--", *_LINES], dict(standing.environ)


def measure(name: str, command: Sequence[str], environ: Mapping[str, str]) -> dict[str, Any]:
    took = min(read(command, environ, MANY)[0] for _ in range(ROUNDS))
    _, late = read(command, {**environ, "PAUSE": str(PAUSE_S)}, SLOW)
    print(f"  {name}: {MANY} lines in {took:.2f} s", file=sys.stderr)
    row = {"name": name, "per_s": MANY / took, "late_s_p50": at(0.5, late), "late_s_p99": at(0.99, late)}
    return row | {"must_per_s": MUST_PER_S, "aim_per_s": AIM_PER_S, "must_late_s": MUST_LATE_S, "machine": machine()}


def show(row: dict[str, Any], peers: dict[str, dict[str, Any]]) -> None:
    beside = [(name, row["per_s"] / peer["per_s"]) for name, peer in peers.items() if peer is not row]
    ratios = ", ".join(f"{ratio:.2f} of {name}" for name, ratio in beside)
    print(
        f"{row['name']}: {row['per_s']:,.0f} lines/s ({ratios}; must {MUST_PER_S:,}, aim {AIM_PER_S:,}); a slow printer's line "
        f"is {row['late_s_p50'] * 1000:.0f} ms late, 99% within {row['late_s_p99'] * 1000:.0f} "
        f"(must {MUST_LATE_S * 1000:g}; {row['machine']})",
        flush=True,
    )


def main() -> None:
    environ = {**clean(), "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": ""}
    peers = {name: measure(name, command, environ) for name, command in _PEERS.items()}
    rows = list(peers.values())
    for kind, plane_in in PLANES.items():
        with tempfile.TemporaryDirectory(prefix="bench-") as folder, plane_in(Path(folder)) as standing:
            rows.append(measure(f"log_lines, {kind}", *follower(standing)))
    for row in rows:
        show(row, peers)
    keep("log_lines", rows)


if __name__ == "__main__":
    main()
