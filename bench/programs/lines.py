"""Prints numbered lines, each with the time of its printing; ``PAUSE`` seconds between them, or none."""

import os
import sys
import time

count, pause = int(sys.argv[1]), float(os.environ.get("PAUSE", "0"))
for number in range(count):
    print(f"step {number:7d} loss 0.693147 lr 0.0010 at {time.time():.6f}", flush=bool(pause))
    if pause:
        time.sleep(pause)
