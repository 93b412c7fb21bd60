"""Counts aloud, and sums over the gang at each step: ``counting.py STEPS PAUSE_S [END]``; the file END ends it early.

Rank 0 says what the sums came to.
"""

import os
import sys
import time

import torch
import torch.distributed as dist

steps, pause, end = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else ""
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
total = 0.0
for step in range(steps):
    part = torch.tensor([float(rank + 1) * step, float(bool(end) and os.path.exists(end))])
    dist.all_reduce(part)
    total += part[0].item()
    print(f"step {step}", flush=True)
    if part[1].item():
        break
    time.sleep(pause)
with open(f"rank{rank}.txt", "w") as file:
    file.write(str(total))
if rank == 0:
    print(f"total {total} of {world} on {os.environ['GPULAYER_WORKER_NAME']}", flush=True)
