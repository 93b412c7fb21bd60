"""A command that does nothing, on a standing worker, from an open client: submission to its end, over Slurm's ``srun true``."""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import slurm
from rotation import at, compared, keep, machine
from standing import PLANES, Standing

from gpulayer.plane import Cursor
from gpulayer.spec.job import CommandJob

MUST, ROUNDS = 2.0, 40
THERE_S = 0.047
"""What ``srun true`` takes on the machine on which the figure was agreed."""


def ours(standing: Standing) -> float:
    began = time.perf_counter()
    plane, cursor = standing.plane, Cursor()
    job = plane.submit(CommandJob(command=("true",), placement={"target": standing.target}))
    while not job.state.terminal:
        news = plane.news(job.id, cursor, timeout_s=30.0)
        job, cursor = news.job, news.cursor
    took = time.perf_counter() - began
    assert job.state.value == "succeeded", job.sentence
    return took


def theirs(environ: dict[str, str]) -> float:
    began = time.perf_counter()
    subprocess.run(["srun", "true"], env=environ, check=True)
    return time.perf_counter() - began


def alone(name: str, standing: Standing) -> dict[str, object]:
    """Measure without anyone beside."""
    ours(standing)
    times = [ours(standing) for _ in range(ROUNDS)]
    median = statistics.median(times)
    print(
        f"{name}: {median * 1000:.1f} ms (99% within {at(0.99, times) * 1000:.1f} ms), {median / THERE_S:.2f} of the "
        f"{THERE_S * 1000:g} ms that srun takes elsewhere (must {MUST}; {machine()})",
        flush=True,
    )
    return {"name": name, "must": MUST, "ours": median, "rounds": ROUNDS, "machine": machine()}


def main() -> None:
    lacking, rows = slurm.missing(), []
    if lacking:
        print(f"Slurm isn't there to measure against (missing: {', '.join(lacking)}).", flush=True)
    with ExitStack() as started:
        environ = {**os.environ}
        if not lacking:
            folder = started.enter_context(tempfile.TemporaryDirectory(prefix="bench-slurm-"))
            environ = started.enter_context(slurm.running(Path(folder)))
        for kind, plane_in in PLANES.items():
            name = f"no_op_job, {kind}"
            with tempfile.TemporaryDirectory(prefix="bench-") as folder, plane_in(Path(folder)) as standing:
                if lacking:
                    rows.append(alone(name, standing))
                else:
                    rows.append(compared(name, MUST, lambda: ours(standing), lambda: theirs(environ), rounds=ROUNDS))
    keep("no_op_job", rows)


if __name__ == "__main__":
    main()
