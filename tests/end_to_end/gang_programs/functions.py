"""Functions for jobs."""

import threading
import time


def linger() -> str:
    threading.Thread(target=time.sleep, args=(600,), name="uploader").start()
    return "done"
