"""Writes until the disk of rank 1's machine is full, and lets the error be seen."""

import os

if os.environ["RANK"] == "1":
    print("filling", flush=True)
    with open("large.bin", "wb") as file:
        while True:
            file.write(bytes(1024 * 1024))
            file.flush()
