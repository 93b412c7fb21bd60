"""Ranks that come to different ends, as the first argument names: ``ranks.py MODE [RANK]``; RANK is the odd one (1)."""

import os
import sys
import threading
import time

MODE, ODD = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1
RANK = int(os.environ["RANK"])


def say(text: str) -> None:
    print(text, flush=True)


def exits() -> None:
    """One rank fails while the others have long to go."""
    say("up")
    if RANK == ODD:
        sys.exit(1)
    time.sleep(600)


def sleeps() -> None:
    say("up")
    time.sleep(600)


def blocked() -> None:
    """One rank never gets to where all meet."""
    if RANK == ODD:
        say("blocked")
        time.sleep(600)
    import torch.distributed as dist

    dist.init_process_group("gloo")


def early() -> None:
    """One rank is done; the others wait for something that won't come."""
    if RANK != ODD:
        say("waiting")
        time.sleep(600)


def working() -> None:
    """One rank is done; the others have work for longer than the grace."""
    if RANK != ODD:
        end = time.monotonic() + 4.0
        while time.monotonic() < end:
            sum(range(10_000))


def lingering() -> None:
    """The script ends, and a thread of it doesn't."""
    threading.Thread(target=time.sleep, args=(600,), name="uploader").start()
    say("done")


def placed() -> None:
    """Say what torchrun says."""
    names = ("RANK", "LOCAL_RANK", "GROUP_RANK", "NODE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
    say(" ".join(f"{name}={os.environ.get(name)}" for name in names))


if __name__ == "__main__":
    globals()[MODE]()
