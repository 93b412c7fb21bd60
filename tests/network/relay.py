"""Passes TCP on between two hosts, each piece as late as a file says: ``relay.py LISTEN_PORT HOST PORT DELAY_FILE``.

This kernel has no netem; a relay delays what goes both ways without holding up what comes after (a long line, not a thin one).
"""

from __future__ import annotations

import queue
import socket
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path


def main() -> None:
    port, host, to, file = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])
    listening = socket.create_server(("0.0.0.0", port))
    print("up", flush=True)
    while True:
        near, _ = listening.accept()
        far = socket.create_connection((host, to))
        for source, target in ((near, far), (far, near)):
            _pump(source, target, file)


def _pump(source: socket.socket, target: socket.socket, file: Path) -> None:
    pieces: queue.Queue[tuple[float, bytes]] = queue.Queue()

    def read() -> None:
        while True:
            try:
                data = source.recv(65536)
            except OSError:
                data = b""
            pieces.put((time.monotonic() + float(file.read_text() or 0), data))
            if not data:
                return

    def write() -> None:
        while True:
            due, data = pieces.get()
            time.sleep(max(0.0, due - time.monotonic()))
            with suppress(OSError):
                if not data:
                    target.shutdown(socket.SHUT_WR)
                    return
                target.sendall(data)

    for each in (read, write):
        threading.Thread(target=each, daemon=True).start()


if __name__ == "__main__":
    main()
