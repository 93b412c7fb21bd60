"""Step time inside a job over bare torchrun's: 2 processes, the median of 400 steps, both sides in turn."""

from __future__ import annotations

import itertools
import statistics

from rotation import probe, rotate


def median_step(ours: bool) -> float:
    begins = probe(ours, steps=600)["begins"]
    assert isinstance(begins, list)
    return statistics.median(b - a for a, b in itertools.pairwise(begins[-401:]))


if __name__ == "__main__":
    rotate("step_time", 1.02, lambda: median_step(True), lambda: median_step(False), rounds=7)
