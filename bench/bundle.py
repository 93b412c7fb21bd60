"""A repository of 20,000 files made into a bundle, over ``zip`` of the same files; and the same again, unchanged."""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rotation import keep, machine

from gpulayer.artifacts import bundle

FOLDERS, FILES_EACH, ROUNDS = 400, 50, 5
MUST_S = 3.0


def made(root: Path) -> Path:
    """Write a repository of small modules, all of them tracked."""
    words = random.Random(1)
    for number in range(FOLDERS):
        folder = root / f"package{number // 20}" / f"part{number % 20}"
        folder.mkdir(parents=True)
        for file in range(FILES_EACH):
            lines = [f"def step{line}(x):\n    return x + {words.random()}\n" for line in range(words.randint(5, 80))]
            (folder / f"module{file}.py").write_text("".join(lines))
    for command in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *command], cwd=root, check=True)
    return root


def timed(do: Callable[[], object]) -> float:
    began = time.perf_counter()
    do()
    return time.perf_counter() - began


def zipped(root: Path, to: Path) -> None:
    to.unlink(missing_ok=True)
    subprocess.run(["zip", "-q", "-r", "-1", str(to), ".", "-x", ".git/*"], cwd=root, check=True)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        root, memory = made(Path(folder) / "source"), Path(folder) / "memory.json"
        pairs, again = list[tuple[float, float]](), list[float]()
        for _ in range(ROUNDS):
            memory.unlink(missing_ok=True)
            ours = timed(lambda: bundle.pack(root, Path(folder) / "ours.zip", memory=memory, known=lambda _: True))
            pairs.append((ours, timed(lambda: zipped(root, Path(folder) / "theirs.zip"))))
            again.append(timed(lambda: bundle.pack(root, Path(folder) / "ours.zip", memory=memory, known=lambda _: True)))
        size = os.path.getsize(Path(folder) / "ours.zip")
    ours, theirs, unchanged = (statistics.median(times) for times in (*zip(*pairs, strict=True), again))
    ratio = statistics.median(mine / zips for mine, zips in pairs)
    row = {"name": "bundle of 20,000 files", "must_s": MUST_S, "ours": ours, "theirs": theirs, "ratio": ratio}
    print(
        f"{row['name']} ({size / 1e6:.1f} MB): {ours:.2f} s (must {MUST_S:g} s), {ratio:.2f} of `zip -r -1` ({theirs:.2f} s); "
        f"unchanged {unchanged:.2f} s ({ROUNDS} rounds; {machine()})"
    )
    keep("bundle", [row | {"unchanged": unchanged, "rounds": ROUNDS, "machine": machine()}])


if __name__ == "__main__":
    main()
