"""Time to place a gang of 64 workers among 10,000 registered ones, in several fleets."""

from __future__ import annotations

import gc
import json
import os
import platform
import statistics
import time

from rotation import RESULTS

from gpulayer.control.engine import placement
from gpulayer.spec.job import DistributedJob
from gpulayer.spec.records import JobRecord, Snapshot, WorkerRecord
from gpulayer.spec.workers import Capabilities, Device, WorkerInfo

MUST_MS, AIM_MS = 50.0, 5.0
FLEET, GANG, ROUNDS = 10_000, 64, 15


def worker(number: int, *, devices: int, busy: bool) -> WorkerRecord:
    uuids = [f"GPU-{number}-{index}" for index in range(devices)]
    able = Capabilities(
        machine=f"machine-{number}",
        python="3.11.7",
        cpus=64,
        memory_gb=512.0,
        frameworks={"torch": "2.13.0", "lightning": "2.6.6"},
        devices=tuple(Device(uuid=uuid, kind="cuda", index=index, memory_gb=80.0) for index, uuid in enumerate(uuids)),
        backends=("gloo", "nccl"),
        launcher=True,
        advertise_address=f"10.0.{number // 250}.{number % 250}",
    )
    info = WorkerInfo(id=f"wkr-{number:012x}", name=f"w{number}", origin="existing", capabilities=able)
    held = (("job-other", 1, number),) if busy else ()
    return WorkerRecord(info=info, busy=held, leased=tuple(uuids) if busy else ())


def gang() -> JobRecord:
    needs = {"accelerator": "cuda", "gpu_count": 8, "python": ">=3.11", "torch": ">=2.4"}
    spec = DistributedJob(
        entrypoint="train.py", num_workers=GANG, procs_per_worker=8, resources=needs, placement={"target": "remote"}
    )
    return JobRecord(id="job-bench", spec=spec)


FLEETS = {
    "idle": [worker(number, devices=8, busy=False) for number in range(FLEET)],
    "mixed": [worker(number, devices=8 if number % 3 == 0 else 0, busy=number % 2 == 0) for number in range(FLEET)],
    "nearly full": [worker(number, devices=8, busy=number < FLEET - GANG) for number in range(FLEET)],
    "one too few": [worker(number, devices=8, busy=number <= FLEET - GANG) for number in range(FLEET)],
}


def measure(fleet: list[WorkerRecord]) -> list[float]:
    """Return milliseconds of processor time of each plan, after one that isn't counted."""
    snapshot = Snapshot.model_construct(queued=(gang(),), workers=tuple(fleet))
    times = []
    for _ in range(ROUNDS + 1):
        gc.collect()
        begun = time.process_time()  # it waits for nothing, and other programs of the machine are not its slowness
        placement.plan(snapshot, 0.0)
        times.append((time.process_time() - begun) * 1000)
    return times[1:]


def main() -> None:
    RESULTS.mkdir(exist_ok=True)
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    rows = []
    for name, fleet in FLEETS.items():
        times = measure(fleet)
        median = statistics.median(times)
        row = {"name": f"placement, {name}", "must_ms": MUST_MS, "aim_ms": AIM_MS, "ms": median, "ratio": median / MUST_MS}
        rows.append(row | {"ms_min": min(times), "ms_max": max(times), "rounds": ROUNDS, "machine": machine})
        print(
            f"place {GANG} of {FLEET}, {name}: {median:.1f} ms, {median / MUST_MS:.2f} of the {MUST_MS:g} ms allowed "
            f"(aim {AIM_MS:g}; {min(times):.1f} to {max(times):.1f} in {ROUNDS} plans; {machine})",
            flush=True,
        )
    (RESULTS / "placement.json").write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
