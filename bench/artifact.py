"""A 2 GiB artifact into a plane and out of it again, over ``cp`` of the file there and back; and what memory that takes.

What is written waits on the disk before the next begins, so that nobody pays for what another left to be written.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rotation import keep, machine
from standing import PLANES, Memory, Standing

MUST, AIM, MUST_MB = 2.5, 1.3, 64.0
SIZE, ROUNDS = int(os.environ.get("BENCH_BYTES", 2 * 1024**3)), 3


def made(path: Path) -> Path:
    with path.open("wb") as file:
        for _ in range(SIZE // (1 << 24)):
            file.write(os.urandom(1 << 24))
    return path


def timed(do: Callable[[], object]) -> float:
    os.sync()
    began = time.perf_counter()
    do()
    return time.perf_counter() - began


def copied(source: Path, to: Path) -> float:
    """Copy there and back with ``cp``; a copy that is only made by sharing blocks is none."""
    there, back = to / "there", to / "back"
    took = 0.0
    for a, b in ((source, there), (there, back)):
        took += timed(lambda: subprocess.run(["cp", "--reflink=never", str(a), str(b)], check=True))  # noqa: B023
    there.unlink()
    back.unlink()
    return took


def stored(standing: Standing, source: Path, to: Path) -> tuple[float, float]:
    """Store the file and fetch it again, as a fresh blob; returns the seconds of each."""
    with source.open("r+b") as file:
        file.write(os.urandom(64))
    found: list[str] = []
    there = timed(lambda: found.append(standing.plane.put_blob(source).sha256))
    back = timed(lambda: standing.plane.fetch_blob(found[0], to / "fetched"))
    same = subprocess.run(["cmp", str(source), str(to / "fetched")], check=False)
    assert same.returncode == 0
    (to / "fetched").unlink()
    return there, back


def measure(kind: str, source: Path, folder: Path) -> dict[str, object]:
    with PLANES[kind](folder) as standing:
        memory = {name: Memory(pid) for name, pid in {**standing.pids, "client": os.getpid()}.items()}
        pairs = list[tuple[float, float]]()
        for _ in range(ROUNDS):
            pairs.append((sum(times := stored(standing, source, folder)), copied(source, folder)))
            print(f"  {kind}: there {times[0]:.2f} s, back {times[1]:.2f} s; cp {pairs[-1][1]:.2f} s", file=sys.stderr)
        grown = {name: each.grown_mb() for name, each in memory.items()}
    ratios = [ours / theirs for ours, theirs in pairs]
    row = {"name": f"artifact, {kind}", "must": MUST, "aim": AIM, "ratio": statistics.median(ratios), "grown_mb": grown}
    row |= {"ours": statistics.median(ours for ours, _ in pairs), "theirs": statistics.median(cp for _, cp in pairs)}
    print(
        f"{row['name']}: {row['ratio']:.2f} of cp there and back, {float(str(row['ratio'])) * 2:.2f} of one cp "
        f"(must {MUST}, aim {AIM}; {min(ratios):.2f} to {max(ratios):.2f} in {ROUNDS} pairs; medians {row['ours']:.2f} s "
        f"against {row['theirs']:.2f} s); memory {', '.join(f'{name} +{mb:.0f} MB' for name, mb in grown.items())} "
        f"(must {MUST_MB:g}; {machine()})",
        flush=True,
    )
    return row | {"rounds": ROUNDS, "must_mb": MUST_MB, "machine": machine()}


def main() -> None:
    rows = []
    for kind in PLANES:
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            source = made(Path(folder) / "source")
            rows.append(measure(kind, source, Path(folder)))
    keep("artifact", rows)


if __name__ == "__main__":
    main()
