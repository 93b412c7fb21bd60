"""From fit() called to the first training step, cold, over bare torchrun's from its process start: 2 processes."""

from __future__ import annotations

from rotation import probe, rotate


def ours() -> float:
    seen = probe(True, steps=1)
    return float(seen["begins"][0]) - float(seen["called"])  # type: ignore[index,arg-type]


def theirs() -> float:
    seen = probe(False, steps=1)
    return float(seen["begins"][0]) - float(seen["started"])  # type: ignore[index,arg-type]


if __name__ == "__main__":
    rotate("first_step_cold", 1.15, ours, theirs, rounds=7)
